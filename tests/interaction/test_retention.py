"""Old records are deleted by a running server, and its doors say what is kept."""

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Connection

from circadia.ids import AgentId
from circadia.records.pulse import PulseStatus
from circadia.stores.sqlite import open_sqlite
from tests.contract.rows import agent, call, conversation, event, message, session, stored, thread
from tests.contract.wake_rows import pulse, wake
from tests.contract.years import TABLES, build_row
from tests.fixtures.database_file import put_database
from tests.interaction.live import ADMIN, Live, live

pytestmark = pytest.mark.spec("GATE-81")
DAYS = (100, 50, 1)
FOR_EVER = dict.fromkeys(("events_days", "calls_days", "provider_ids_days"))


async def aged(folder: Path) -> list[int]:
    """Store an event, a call and the owner of an id for each age in days; return the events' numbers."""
    now, store = datetime.now(UTC), await open_sqlite(put_database(folder))
    async with store.begin_write() as tx:
        for days in DAYS:
            then = now - timedelta(days=days)
            data = {"thread": "thr_1", "thread_name": "talk", "message": str(days), "from": "ann", "mentions": ["bob"]}
            await tx.events.add([replace(event(days), at=then, data=data)])
            await tx.calls.add([replace(call(f"c{days}", by=agent("ann")), at=then)])
            await tx.provider_ids.add("openai", f"resp_{days}", AgentId("ann"), then)
    async with store.begin_read() as tx:
        numbers = [each.number for each in await tx.events.find_after(0)]
    await store.close()
    return numbers


async def oldest_once_deleted(running: Live, first: int) -> int:
    """Return the number of the oldest event once the first is deleted."""
    async with asyncio.timeout(30):
        while (found := (await running.rest("GET", "/events?after=0&limit=1"))[1]["oldest"]) <= first:
            await asyncio.sleep(0.05)
    return found


async def aged_rows(folder: Path) -> None:
    """Store a decided wake, an ended pulse, a message that is in no inbox and a conversation for each age in days."""
    now, store = datetime.now(UTC), await open_sqlite(put_database(folder))
    ann, talk = agent("ann"), thread()
    await stored(store, session(), ann, talk)
    async with store.begin_write() as tx:
        for days in DAYS:
            then = now - timedelta(days=days)
            await tx.wakes.add(replace(wake(f"wak_{days}", ann), at=then, decided_at=then))
            over = pulse(f"pls_{days}", ann, status=PulseStatus.SUCCEEDED, ended_at=then)
            await tx.pulses.add(replace(over, created_at=then))
            await tx.messages.add(replace(message(f"msg_{days}", to=talk), at=then), [])
            await tx.conversations.add([replace(conversation(f"cnv_{days}", of=ann), at=then)])
    await store.close()


def kept(folder: Path, table: str, at: str) -> list[str]:
    """Return the ids that a table holds, the oldest first."""
    with closing(sqlite3.connect(folder / "circadia.db", timeout=60)) as database:
        return [row[0] for row in database.execute(f"SELECT id FROM {table} ORDER BY {at}")]


@pytest.mark.setting(
    "retention.wakes_days", "retention.pulses_days", "retention.messages_days", "retention.conversations_days"
)
@pytest.mark.parametrize(
    ("table", "at", "prefix", "key"),
    [
        ("wakes", "decided_at", "wak", "wakes_days"),
        ("pulses", "ended_at", "pls", "pulses_days"),
        ("messages", "at", "msg", "messages_days"),
        ("conversations", "at", "cnv", "conversations_days"),
    ],
)
async def test_each_kind_of_record_is_kept_for_days_of_its_own(
    tmp_path: Path, table: str, at: str, prefix: str, key: str
) -> None:
    await aged_rows(tmp_path)
    others = dict.fromkeys(("wakes_days", "pulses_days", "messages_days", "conversations_days"))
    async with live(tmp_path, retention={**others, key: 40}), asyncio.timeout(30):
        while kept(tmp_path, table, at) != [f"{prefix}_1"]:
            await asyncio.sleep(0.05)
    counts = [len(kept(tmp_path, each, "id")) for each in ("wakes", "pulses", "messages", "conversations")]
    assert sorted(counts) == [1, 3, 3, 3], "the other kinds are kept forever"


@pytest.mark.setting("retention.sums_days", "retention.memory_days")
async def test_sums_and_what_left_the_memory_are_kept_for_days_of_their_own(tmp_path: Path) -> None:
    now, store = datetime.now(UTC), await open_sqlite(put_database(tmp_path))
    ages = {f"{days}": now - timedelta(days=days) for days in DAYS}
    rows: dict[str, list[dict[str, object]]] = {
        "banks": [{"id": "bank", "name": "bank"}],
        "calls": [{"id": name, "at": at, "merged": 1, "status": "done"} for name, at in ages.items()],
        "notes": [
            {"id": name, "bank_id": "bank", "kind": "belief", "trust": "person", "retired_at": at}
            for name, at in ages.items()
        ],
    }

    def write(connection: Connection) -> None:
        for table, values in rows.items():
            connection.execute(TABLES[table].insert(), [build_row(TABLES[table], each) for each in values])

    async with store.writer.begin(()) as block:
        await block.run(write)
    await store.close()
    async with live(tmp_path, retention={"sums_days": 90, "memory_days": 40}), asyncio.timeout(30):
        while (kept(tmp_path, "calls", "at"), kept(tmp_path, "notes", "retired_at")) != (["50", "1"], ["1"]):
            await asyncio.sleep(0.05)


def owned(folder: Path) -> list[str]:
    """Return the ids whose owner is known, the oldest first."""
    with closing(sqlite3.connect(folder / "circadia.db", timeout=60)) as database:
        return [row[0] for row in database.execute("SELECT provider_id FROM provider_ids ORDER BY at")]


@pytest.mark.setting("retention.events_days", "retention.calls_days", "retention.provider_ids_days")
@pytest.mark.parametrize(("days", "left"), [(90, [50, 1]), (40, [1])])
async def test_what_is_older_than_its_days_is_deleted_and_sums_of_calls_stay(
    tmp_path: Path, days: int, left: list[int]
) -> None:
    first, *_ = await aged(tmp_path)
    async with live(tmp_path, retention=FOR_EVER) as running:
        usage = await running.usage("day")
        assert [int(each["data"]["message"]) for each in await running.events("message")] == [100, 50, 1]
    async with live(tmp_path, retention=dict.fromkeys(FOR_EVER, days)) as running:
        await oldest_once_deleted(running, first)
        assert [int(each["data"]["message"]) for each in await running.events("message")] == left
        assert await running.usage("day") == usage
        async with asyncio.timeout(30):
            while owned(tmp_path) != [f"resp_{each}" for each in left]:
                await asyncio.sleep(0.05)


async def test_a_follower_whose_next_event_is_deleted_is_told_of_the_gap(tmp_path: Path) -> None:
    first, _, newest = await aged(tmp_path)
    async with live(tmp_path, retention={"events_days": 32}) as running:
        assert await oldest_once_deleted(running, first) == newest
        for after, told in ((first, True), (newest - 1, False), (0, False)):
            headers = {"authorization": f"Bearer {ADMIN}"}
            url = f"{running.url}/api/v1/events/stream?after={after}"
            async with running.http.get(url, headers=headers) as stream:
                seen = b""
                while b'"mentions"' not in seen:
                    seen += await stream.content.readany()
            assert (f'event: gap\ndata: {{"after":{after},"oldest":{newest}}}\n\n'.encode() in seen) is told
