"""A fleet that works for long leaves nothing open, and what it remembers fills up rather than grows forever."""

from pathlib import Path

import pytest

from circadia.clock import SystemClock
from tests.soak.load import Fleet, fleet

HOUR_SECONDS = 3600
OPEN = ("open_turns", "sleep_calls")
"""Tables of what is under way."""
CONNECTIONS = 50
"""Descriptors by which it may differ how many connections of agents and to the provider are kept alive."""


async def well(work: Fleet) -> None:
    """See that nothing is left open and nothing went wrong."""
    assert set(await work.settled()) == {"succeeded"}
    for word in ("Traceback", "Bad file descriptor", " ERROR "):
        assert word not in work.server.log, work.server.log[-4000:]


@pytest.mark.timeout(300)
@pytest.mark.spec("SLEEP-10", "WAKE-51", "GATE-42")
async def test_fifty_agents_with_pulses_passes_and_holds_leave_nothing_open(tmp_path: Path) -> None:
    """What is kept for a while grows by the same in each round, and what is only open is empty behind it."""
    async with fleet(tmp_path) as work:
        used: list[int] = []
        rows: list[dict[str, int]] = []
        for numbers in ((0,), (1, 2, 3), (4, 5, 6)):
            for number in numbers:
                await work.round(number)
            await well(work)
            used.append(work.usage()[1])
            rows.append(work.rows())
    assert used[2] <= used[0] + CONNECTIONS, "each of 150 pulses, 300 calls or 60 passes would leave more"
    first, half, whole = rows
    faster = {name: (half[name] - first[name], whole[name] - half[name]) for name in whole}
    assert not {name: (one, two) for name, (one, two) in faster.items() if two > 1.2 * max(one, 0) + 50}
    assert {name: count for name, count in whole.items() if name in OPEN and count} == {}


@pytest.mark.slow
@pytest.mark.timeout(3 * HOUR_SECONDS)
@pytest.mark.spec("SLEEP-10", "WAKE-51", "GATE-42")
async def test_in_the_second_half_of_an_hour_of_fifty_agents_the_memory_is_flat(tmp_path: Path) -> None:
    """What is remembered fills up to its bounds in twenty minutes; what leaks grows as long as there is work."""
    clock = SystemClock()
    async with fleet(tmp_path) as work:
        used, begun, number = [work.usage()], clock.monotonic(), 0
        for until in (HOUR_SECONDS / 2, HOUR_SECONDS):
            while clock.monotonic() - begun < until:
                await work.round(number)
                number += 1
            await well(work)
            used.append(work.usage())
    _, (half, before), (whole, after) = used
    assert whole <= 1.05 * half, used
    assert after <= before + CONNECTIONS, used
