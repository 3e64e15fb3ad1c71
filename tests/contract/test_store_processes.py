"""What every store promises when processes die or work side by side."""

import asyncio
import sys
from pathlib import Path

import pytest

from circadia.stores.base import Store
from tests.contract.conftest import Database, Opener
from tests.contract.rows import agent, session, stored, tags

LINES = 40


async def start_writer(database: Database) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.contract.writer_process", database.dialect, database.place),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )


async def acknowledged(process: asyncio.subprocess.Process, lines: int) -> list[int]:
    """Return the next lines that the writer printed."""
    assert process.stdout is not None
    return [int(await process.stdout.readline()) for _ in range(lines)]


async def killed(process: asyncio.subprocess.Process) -> list[int]:
    """Kill the writer; return what it had printed and nobody had read."""
    assert process.stdout is not None
    process.kill()
    rest = await process.stdout.read()
    await process.wait()
    return [int(line) for line in rest.split(b"\n")[:-1]]


async def check(store: Store, told: list[int]) -> None:
    """Check that all that was told is stored, and each change of state with its event."""
    async with store.begin_read() as tx:
        found = await tx.agents.get(agent().id)
    assert found is not None
    assert found.generation >= max(told)
    assert found.asleep is (found.generation % 2 == 1)
    assert await tags(store) == list(range(1, found.generation + 1))


@pytest.mark.spec("GATE-03", "GATE-05", "GATE-92")
async def test_what_was_acknowledged_is_in_force_after_the_process_was_killed(
    database: Database, open_store: Opener
) -> None:
    store = await open_store()
    await stored(store, session(), agent())
    await store.close()
    told: list[int] = []
    for _ in range(3):
        process = await start_writer(database)
        told += await acknowledged(process, LINES)
        told += await killed(process)
        store = await open_store()
        await check(store, told)
        await store.close()


@pytest.mark.spec("GATE-03")
async def test_two_processes_write_side_by_side_and_one_survives_the_others_end(
    database: Database, open_store: Opener
) -> None:
    store = await open_store()
    await stored(store, session(), agent())
    first, second = await start_writer(database), await start_writer(database)
    told = await acknowledged(first, LINES) + await acknowledged(second, LINES)
    told += await killed(first)
    told += await acknowledged(second, LINES)
    told += await killed(second)
    assert len(set(told)) == len(told)
    await check(store, told)
