"""A server that is killed at each step of a pulse, and what the next one makes of it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.durability.waking import alive, config, noted, until_noted, until_settled
from tests.fixtures.server_process import PROGRAM, CircadiaProcess

STANDS = "stands"
RUNNING = "while it runs"
STEPS = [
    # step, starts of the agent in all, ends of the agent in all, attempts that count
    ("before the lease", 1, 1, 1),
    ("between lease and launch", 1, 1, 2),
    (RUNNING, 2, 1, 2),
    ("before the end is recorded", 2, 2, 2),
]
"""What the page on recovery promises of each."""


async def killed_at(server: CircadiaProcess, notes: Path, step: str) -> dict[str, Any]:
    """Ask for a wake, and kill the server when its pulse is there; return what was answered."""
    if step != RUNNING:
        (notes / "go").touch()
    asked = await server.call("POST", "/wakes", {"to": "ann", "reason": "blocker", "message": "1"})
    if step == RUNNING:
        await until_noted(notes, "start", 1)
    else:
        async with asyncio.timeout(60):
            while not (notes / STANDS).exists():
                await asyncio.sleep(0.02)
    await server.kill9()
    return asked


async def check(folder: Path, more: dict[str, Any], step: str, starts: int, ends: int, attempts: int) -> None:
    notes = folder / "notes"
    notes.mkdir()
    stopping = ("tests.durability.stopping_server", step, str(notes / STANDS))
    server = CircadiaProcess(folder, {**config(notes), **more}, program=PROGRAM if step == RUNNING else stopping)
    async with server:
        asked = await killed_at(server, notes, step)
        server.program = PROGRAM
        await server.start()
        await until_noted(notes, "start", starts)
        (notes / "go").touch()
        (pulse,) = await until_settled(server)
        assert (pulse["id"], pulse["status"], pulse["attempt"]) == (asked["pulse"], "succeeded", attempts)
        lines = noted(notes)
        assert {line[2] for line in lines} == {pulse["id"]}
        assert [sum(line[0] == what for line in lines) for what in ("start", "done", "overlap")] == [starts, ends, 0]
        assert not [line for line in lines if alive(line[3])]
        (wake,) = (await server.call("GET", "/wakes"))["wakes"]
        assert (wake["id"], wake["decision"], wake["charge"]) == (asked["wake"], "admitted", "charged")
        assert (await server.call("GET", "/agents/ann/wake-stats"))["wakes_today"] == 1
        counts = (await server.call("GET", "/agents/ann/inbox"))["counts"]
        assert {state: count for state, count in counts.items() if count} == {"handled": 1}


@pytest.mark.spec("WAKE-14", "WAKE-23", "WAKE-50")
@pytest.mark.parametrize(("step", "starts", "ends", "attempts"), STEPS, ids=[each[0] for each in STEPS])
async def test_a_server_that_is_killed_at_any_step_of_a_pulse_loses_and_repeats_no_more_than_is_promised(
    tmp_path: Path, step: str, starts: int, ends: int, attempts: int
) -> None:
    await check(tmp_path, {}, step, starts, ends, attempts)


@pytest.mark.slow
@pytest.mark.spec("WAKE-14", "WAKE-23", "WAKE-50")
@pytest.mark.parametrize(("step", "starts", "ends", "attempts"), STEPS, ids=[each[0] for each in STEPS])
async def test_so_it_is_on_postgresql_after_the_lease(
    tmp_path: Path, postgres_url: str, step: str, starts: int, ends: int, attempts: int
) -> None:
    await check(tmp_path, {"server": {"database_url": postgres_url}}, step, starts, ends, attempts)
