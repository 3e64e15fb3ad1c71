"""A fleet that works for long leaves nothing open, and what it remembers fills up rather than grows for ever."""

from pathlib import Path

import pytest

from circadia.clock import SystemClock
from tests.soak.load import Fleet, fleet

HOUR_SECONDS = 3600
MEBIBYTE = 2**20
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
    async with fleet(tmp_path) as work:
        await work.round(0)
        await well(work)
        _, before = work.usage()
        for number in range(1, 6):
            await work.round(number)
        await well(work)
        _, after = work.usage()
        assert after <= before + CONNECTIONS, "each of 125 pulses, 250 calls or 50 passes would leave more"


@pytest.mark.slow
@pytest.mark.timeout(3 * HOUR_SECONDS)
@pytest.mark.spec("SLEEP-10", "WAKE-51", "GATE-42")
async def test_in_the_second_half_of_an_hour_of_fifty_agents_the_memory_grows_by_less_than_half(tmp_path: Path) -> None:
    """What is remembered fills up to its bounds, ever more slowly; what leaks grows as long as there is work."""
    clock = SystemClock()
    async with fleet(tmp_path) as work:
        used, begun, number = [work.usage()], clock.monotonic(), 0
        for until in (HOUR_SECONDS / 2, HOUR_SECONDS):
            while clock.monotonic() - begun < until:
                await work.round(number)
                number += 1
            await well(work)
            used.append(work.usage())
    (first, _), (half, before), (whole, after) = used
    assert whole - half < max(16 * MEBIBYTE, (half - first) / 2), used
    assert after <= before + CONNECTIONS, used
