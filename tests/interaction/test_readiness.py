"""A server whose work cannot go on says so at `/readyz`, and why."""

import asyncio
import os
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from circadia.clock import SystemClock
from circadia.stores.sqlite import open_sqlite
from tests.cli.terminal import run
from tests.contract.rows import event
from tests.fixtures.database_file import put_database
from tests.interaction.live import Live, live

DAMAGE: Final = "SQLite does not answer: its files are damaged; restore a backup\n"


class BrokenClock(SystemClock):
    """A clock whose sleep fails in one background task."""

    broken: str | None = None

    async def sleep(self, seconds: float) -> None:
        task = asyncio.current_task()
        if task is not None and task.get_name() == self.broken:
            raise ZeroDivisionError("the clock is broken")
        await super().sleep(seconds)


async def ready(at: Live) -> tuple[int, str]:
    async with at.http.get(f"{at.url}/readyz") as response:
        return response.status, await response.text()


@pytest.mark.spec("LARGE-130", "GATE-41")
@pytest.mark.parametrize("name", ["Sweeps", "AlertNotifier"])
async def test_a_background_task_that_ends_makes_the_server_unready_and_is_logged_with_its_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    clock = BrokenClock()
    async with live(tmp_path, clock=clock) as at, asyncio.timeout(30):
        assert await ready(at) == (200, "ready\n")
        clock.broken = name
        while (answer := await ready(at))[0] == 200:
            await asyncio.sleep(0.05)
        assert answer[0] == 503
        assert repr(name) in answer[1]
        record = next(record for record in caplog.records if "background task" in record.message)
        assert repr(name) in record.message
        assert record.exc_text is not None
        assert "ZeroDivisionError: the clock is broken" in record.exc_text


@asynccontextmanager
async def large_log(folder: Path) -> AsyncGenerator[Path]:
    """Make a database whose events take many pages."""
    file = put_database(folder)
    store = await open_sqlite(file)
    data = {"thread": "t", "thread_name": "t", "message": "x" * 1_000, "from": "ann", "mentions": ["bob"]}
    async with store.begin_write() as tx:
        await tx.events.add([replace(event(number), data=data) for number in range(2_000)])
    await store.close()
    yield file


def damage_events(file: Path) -> None:
    """Overwrite pages in the middle of the events."""
    with closing(sqlite3.connect(file, timeout=60)) as database:
        (size,) = database.execute("PRAGMA page_size").fetchone()
        (count,) = database.execute("PRAGMA page_count").fetchone()
    with file.open("r+b") as pages:
        pages.seek(size * (count // 2))
        pages.write(os.urandom(size * (count // 4)))


@pytest.mark.spec("LARGE-131", "GATE-41")
async def test_a_database_that_is_damaged_at_the_start_is_not_ready_and_the_doctor_finds_it(tmp_path: Path) -> None:
    async with large_log(tmp_path) as file:
        damage_events(file)
    async with live(tmp_path) as at:
        assert await ready(at) == (503, DAMAGE)
    result = await run("doctor", "--json", "--data", str(tmp_path))
    (found,) = [check for check in result.json["checks"] if check["name"] == "database"]
    assert (result.status, found["state"]) == (10, "fail")
    assert "is damaged" in found["message"]
    assert "circadia restore" in found["remedy"]


@pytest.mark.spec("LARGE-131", "GATE-41")
async def test_a_damaged_page_that_a_running_server_meets_makes_it_unready_until_a_restart(tmp_path: Path) -> None:
    async with large_log(tmp_path) as file, live(tmp_path) as at:
        assert await ready(at) == (200, "ready\n")
        damage_events(file)
        assert await ready(at) == (200, "ready\n")
        status, problem = await at.rest("GET", "/events?after=800&limit=500")
        assert (status, problem["code"]) == (503, "storage_unavailable")
        for _ in range(2):
            assert await ready(at) == (503, DAMAGE)
