"""The rows of years are deleted down to the stated ages and sizes, and what lives keeps what it needs."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest
from sqlalchemy import Connection, func, select

from circadia.server.sweeps import RetentionSweep
from circadia.settings import Settings
from circadia.stores.base import Store
from circadia.stores.sql.statement import DRIVER_CONNECTION
from circadia.stores.sql_store import SqlStore
from circadia.stores.sqlite import open_sqlite
from circadia.testing.clock import ManualClock
from tests.contract.years import START, TABLES, write_years
from tests.fixtures.database_file import put_database
from tests.server.test_sweeps import passes, sweeping

T = TypeVar("T")
DAYS: Final = 500
"""Days with rows of each table, of which the last one has just ended."""
INBOX: Final = 365
"""Sessions of the last year, each with an agent, a thread, a thread of direct messages, and their messages."""
LEFT: Final[Mapping[str, int]] = {
    "event_waits": 0, "named_events": 0,
    "sessions": INBOX + 1, "agents": INBOX + 1, "threads": 2 * INBOX + 1, "participants": INBOX + 1, "routines": INBOX,
    "messages": DAYS + 3 * INBOX,  # what nobody has read, and all of a year
    "deliveries": DAYS + INBOX + 90, "delivery_counts": INBOX + 2,
    "events": 90 + 3,  # three pages of episodes were forgotten
    "calls": 90, "call_texts": 7, "usage_days": DAYS + 90,  # the sums by end user go with the calls
    "provider_ids": 400, "conversations": 90, "wakes": 90 + 1, "pulses": 90 + 1, "alerts": 90, "provenances": 0,
    "hook_deliveries": 90, "spans": 90, "span_sums": 90, "alert_history": 90,
    "banks": 2, "episodes": DAYS + 30, "notes": DAYS + 365, "evidence": DAYS + 365, "removals": 3,
    "forgotten_episodes": 7, "promotions": 0, "approvals": 90,
    "blocks": 365 + 50 + 1 + 10,
    "passes": 30 + 1, "pass_changes": 30 * 3, "sleep_calls": 90, "dream_jobs": 30, "benefits": 366, "answer_days": 366,
    "answers": 30 + 10, "answer_uses": 30, "answer_frames": 30, "answer_verdicts": 30, "write_probe": 1,
    **dict.fromkeys(("access_tokens", "used_links", "sleep_states", "cursors", "due_checks", "next_checks"), 0),
    **dict.fromkeys(("hooks", "members", "leads", "hold_places", "open_turns"), 0),
}  # fmt: skip
"""Rows of each table afterwards."""


async def run(store: Store, work: Callable[[Connection], T]) -> T:
    assert isinstance(store, SqlStore)
    async with store.writer.begin(()) as block:
        return await block.run(work)


async def count_rows(store: Store) -> Mapping[str, int]:
    counts = {name: select(func.count()).select_from(table) for name, table in TABLES.items()}
    return await run(store, lambda connection: {n: connection.execute(c).scalar_one() for n, c in counts.items()})


async def rows_of(store: Store, table: str, *columns: str) -> list[Any]:
    statement = select(*(TABLES[table].c[column] for column in columns))
    return await run(store, lambda connection: list(connection.execute(statement).all()))


async def ids_of(store: Store, table: str, column: str = "id") -> set[Any]:
    return {row[0] for row in await rows_of(store, table, column)}


@pytest.mark.spec("LARGE-08", "GATE-81")
async def test_the_rows_of_years_are_deleted_down_to_the_stated_ages_and_live_ones_keep_what_they_need(
    store: Store,
) -> None:
    await run(store, lambda connection: write_years(connection, DAYS))
    clock = ManualClock(START + timedelta(days=DAYS))
    async with sweeping(store, clock, 90):
        for _ in range(55):
            await passes(clock, 1)
    assert await count_rows(store) == LEFT
    versions: dict[str, list[int]] = {}
    for label, version in await rows_of(store, "blocks", "label", "version"):
        versions.setdefault(label, []).append(version)
    assert {label: (min(numbers), max(numbers)) for label, numbers in versions.items()} == {
        "busy": (DAYS - 365 + 1, DAYS), "seldom": (1, 50), "gone": (10, 10), "just gone": (1, 10),
    }  # fmt: skip
    live = {f"live{day}" for day in range(DAYS)}
    assert live <= await ids_of(store, "notes")
    assert live <= await ids_of(store, "evidence", "note_id")
    assert "live" in await ids_of(store, "threads") & await ids_of(store, "sessions")
    assert {"deferred", "w499"} <= await ids_of(store, "wakes")
    assert {f"unread{day}" for day in range(DAYS)} <= await ids_of(store, "messages")
    answers = await rows_of(store, "sleep_calls", "answer")
    assert sum(answer is not None for (answer,) in answers) == 30


async def count_steps(folder: Path, days: int) -> int:
    """Return SQLite's steps of a look that finds nothing due, once the rows of so many days are settled."""
    store = await open_sqlite(put_database(folder))
    await run(store, lambda connection: write_years(connection, days))
    clock = ManualClock(START + timedelta(days=days))
    sweep = RetentionSweep(clock, store, Settings.model_validate({}))
    for _ in range(400):
        await sweep.sweep()
        clock.advance(1)
    clock.advance(3_600)
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    await run(store, lambda connection: connection.info[DRIVER_CONNECTION].set_progress_handler(count, 1))
    await sweep.sweep()
    await store.close()
    return steps


@pytest.mark.spec("LARGE-08")
async def test_a_look_that_finds_nothing_due_costs_the_same_however_much_is_kept(tmp_path: Path) -> None:
    (tmp_path / "few").mkdir()
    (tmp_path / "many").mkdir()
    few, many = await count_steps(tmp_path / "few", 400), await count_steps(tmp_path / "many", 4_000)
    assert many <= 1.1 * few
