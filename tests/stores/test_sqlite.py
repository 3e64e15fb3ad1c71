"""What is SQLite's own: the file, its settings and a full disk."""

import asyncio
import errno
import os
import sqlite3
import stat
import time
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Connection

from circadia.errors import StartError, StorageUnavailable
from circadia.ids import AgentId, BankId, MessageId
from circadia.records.message import DeliveryState
from circadia.records.note import NoteState
from circadia.records.sleep_pass import PassStatus
from circadia.stores import sqlite
from circadia.stores.sql.driver_errors import wrap_driver_errors
from circadia.stores.sql.group_commit import GroupCommitWriter
from circadia.stores.sql.link import WritingLink
from circadia.stores.sql.statement import DRIVER_CONNECTION
from circadia.stores.sql_store import SqlStore
from circadia.stores.sqlite import open_sqlite
from tests.contract.rows import at, event, message, put, sent, session, stored, tags
from tests.contract.sleep_rows import sleep_pass
from tests.contract.test_store_inbox import BOB, TALK, copy_messages
from tests.full_disk import no_room


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "circadia.db"


def link_of(store: SqlStore) -> WritingLink:
    """Return the writing connection."""
    assert isinstance(store.writer, GroupCommitWriter)
    return store.writer.link


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqlStore]:
    store = await open_sqlite(path)
    yield store
    await store.close()


@pytest.mark.spec("GATE-92")
async def test_a_block_returns_when_the_log_is_on_the_disk_and_commits_do_not_wait(
    store: SqlStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def settings(connection: Connection) -> list[object]:
        names = ("journal_mode", "synchronous", "foreign_keys", "fullfsync")
        return [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names]

    found = await link_of(store).run(settings, first=("BEGIN",), opens=True)
    link_of(store).roll_back()
    assert found == ["wal", 1, 1, 1]

    synced: list[str] = []

    def noted(file: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{file}").readlink()))

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(os, "fdatasync", noted)
    await put(store, 1)
    assert synced == [str(path.parent), f"{path}-wal"]  # at first the log's name too
    await put(store, 2)
    assert synced[2:] == [f"{path}-wal"]


async def test_a_sync_that_failed_fails_all_later_ones_until_a_new_start(
    store: SqlStore, path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The system may have forgotten what it did not write, and would say of the next one that all is well."""

    def broken(file: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    await put(store, 1)
    await store.ping()
    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", broken)
        with pytest.raises(StorageUnavailable, match="Input/output error"):
            await put(store, 2)
    with pytest.raises(StorageUnavailable, match="restart the server when the disk works again"):
        await put(store, 3)
    with pytest.raises(StorageUnavailable, match="restart the server"):
        await store.ping()  # so the server is not ready
    assert caplog.text.count("the disk failed a sync") == 1
    again = await open_sqlite(path)
    await put(again, 4)
    await again.close()


async def test_the_log_is_copied_into_the_database_beside_the_writers_and_does_not_grow_for_ever(
    store: SqlStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_LOG_BYTES", 400_000)
    log = Path(f"{path}-wal")
    sizes: list[int] = []
    for number in range(300):
        await put(store, f"{number} {'x' * 30_000}")
        sizes.append(log.stat().st_size)
    assert max(sizes) < 5_500_000 < sum(30_000 for _ in sizes)
    assert path.stat().st_size > 1_000_000


async def test_the_file_is_its_owners_alone(store: SqlStore, path: Path) -> None:
    await put(store, 1)
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


async def test_a_full_disk_is_told_to_every_writer_and_passes_when_there_is_room(store: SqlStore) -> None:
    await put(store, "before")
    told: list[int] = []

    async def put_and_tell(n: int) -> None:
        async with store.begin_write() as tx:
            tx.after_commit(lambda: told.append(n))
            await tx.events.add([event("x" * 5000)])

    with no_room():
        results = await asyncio.gather(*(put_and_tell(n) for n in range(5)), return_exceptions=True)
    assert [type(result) for result in results] == [StorageUnavailable] * 5
    assert told == []
    assert await tags(store) == ["before"]
    await put(store, "after")
    assert await tags(store) == ["before", "after"]


async def test_it_is_known_that_nothing_can_be_written_and_found_out_when_it_can(
    store: SqlStore, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await put(store, "before")
    await store.ping()
    written = Path(f"{path}-wal").read_bytes()
    await store.ping()
    assert Path(f"{path}-wal").read_bytes() == written  # as long as all is well it writes every few seconds only
    with no_room():
        await store.ping()  # nobody has found out yet
        with pytest.raises(StorageUnavailable):
            await put(store, "x" * 5000)
        for _ in range(2):
            with pytest.raises(StorageUnavailable, match="its disk accepts no more writes; check its"):
                await store.ping()
        assert await tags(store) == ["before"]
    await store.ping()  # though nobody else has written
    assert caplog.text.count("nothing can be written: the commit failed") == 1
    with no_room():
        await store.ping()


@pytest.mark.spec("LARGE-04")
async def test_many_short_statements_of_one_block_let_other_tasks_run(store: SqlStore) -> None:
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with store.begin_write() as tx:
        await tx.sessions.add(session())
        counting = asyncio.create_task(count_turns())
        ends = time.monotonic() + 0.2
        while time.monotonic() < ends:
            await tx.sessions.get(session().id)
    counting.cancel()
    assert turns >= 3, "once in 50 ms at least"


async def test_a_file_that_is_no_database_is_refused_and_left_as_it_was(path: Path) -> None:
    path.write_text("not a database, but something that someone wants to keep" * 100)
    before = path.read_bytes()
    with pytest.raises(StartError, match=r"circadia\.db"):
        await open_sqlite(path)
    assert path.read_bytes() == before


async def test_a_folder_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="missing"):
        await open_sqlite(tmp_path / "missing" / "circadia.db")


async def test_a_database_that_another_program_keeps_locked_is_refused_after_a_while(
    store: SqlStore, path: Path
) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StorageUnavailable, match="locked"):
        await put(store, 1)
    other.execute("COMMIT")
    other.close()
    await put(store, 2)
    assert await tags(store) == [2]


async def test_a_name_with_odd_characters_is_a_name(tmp_path: Path) -> None:
    path = tmp_path / "a b?c#%d½.db"
    store = await open_sqlite(path)
    await put(store, 1)
    await store.close()
    assert path.stat().st_size > 0


async def test_a_block_whose_transaction_sqlite_rolled_back_stores_nothing_more(store: SqlStore) -> None:
    """On some errors SQLite rolls back all of a transaction; what came after would be stored without one."""

    async def block() -> None:
        async with store.begin_write() as tx:
            await sent(tx, 1)
            await link_of(store).run(lambda connection: connection.exec_driver_sql("ROLLBACK"))
            await sent(tx, 2)

    with pytest.raises(StorageUnavailable, match="rolled"):
        await block()
    await put(store, 3)
    assert await tags(store) == [3]


async def test_lists_of_passes_and_notes_read_a_page_of_an_index(store: SqlStore) -> None:
    """Nothing is sorted, and no rows of other states are passed over."""
    statements: list[str] = []
    async with store.begin_write() as tx:
        await tx.passes.find_newest()
        driver = await link_of(store).run(lambda connection: connection.info[DRIVER_CONNECTION])
        driver.set_trace_callback(statements.append)
        one = sleep_pass("p1", BankId("b1"))
        await tx.passes.find_newest(before=one)
        await tx.passes.find_newest(statuses=[PassStatus.FAILED, PassStatus.PARTIAL], since=at(1), before=one)
        for state in (None, *NoteState):
            await tx.notes.find_page(BankId("b1"), state=state, after=9)
        driver.set_trace_callback(None)
        steps = [row[3] for each in statements for row in driver.execute(f"EXPLAIN QUERY PLAN {each}")]
    by_status = "SEARCH passes USING INDEX passes_status (status=? AND created_at>? AND (created_at,id)<(?,?))"
    assert steps == [
        "SEARCH passes USING INDEX passes_created ((created_at,id)<(?,?))",
        by_status,
        by_status,
        *(f"SEARCH notes USING INDEX notes_{name} (bank_id=? AND number<?)" for name in ("bank", "live", "retired")),
    ]


async def test_a_look_at_what_is_due_passes_over_all_that_waits(store: SqlStore) -> None:
    statements: list[str] = []
    async with store.begin_write() as tx:
        await tx.wakes.has_deferred_by("")  # opens the connection
        driver = await link_of(store).run(lambda connection: connection.info[DRIVER_CONNECTION])
        driver.set_trace_callback(statements.append)
        await tx.wakes.find_due_agents(at(1), ageing_seconds=10, of=[AgentId("agt_ada")], rule="fleet")
        await tx.wakes.has_deferred_by("fleet")
        driver.set_trace_callback(None)
        steps = [row[3] for each in statements for row in driver.execute(f"EXPLAIN QUERY PLAN {each}")]
    for due in ("wakes_deferred (not_before<?)", "wakes_expiring (expires_at<?)", "wakes_waiting (rule=?)"):
        assert f"SEARCH wakes USING INDEX {due}" in steps
    # The one scan is of all agents, whose condition (`:every`) is looked at once and before it.
    assert len([step for step in steps if step.startswith("SCAN wakes")]) == 1, steps


async def test_a_list_of_dead_letters_reads_none_of_10000_messages_that_are_handled(store: SqlStore) -> None:
    await stored(store, session(), BOB, TALK)
    async with store.begin_write() as tx:
        await tx.messages.add(message("m", to=TALK), [(BOB.id, False)])
    await copy_messages(store, 10_000)
    statements: list[str] = []
    async with store.begin_write() as tx:
        await tx.deliveries.find_by_message(MessageId(""))  # opens the connection
        driver = await link_of(store).run(lambda connection: connection.info[DRIVER_CONNECTION])
        driver.set_trace_callback(statements.append)
        found = await tx.deliveries.find_unhandled([DeliveryState.DEAD], limit=50)
        driver.set_trace_callback(None)
        steps = [row[3] for each in statements for row in driver.execute(f"EXPLAIN QUERY PLAN {each}")]
    assert len(found) == 10
    assert "SEARCH deliveries USING INDEX deliveries_unhandled (state=? AND number<?)" in steps
    assert not [step for step in steps if step.startswith("SCAN")], steps


def test_a_file_that_may_not_be_opened_or_written_is_told_with_what_to_check(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "file.db")) as file:
        file.execute("CREATE TABLE kept (id)")
    told = "check their owner and mode"
    with (
        closing(sqlite3.connect(f"{(tmp_path / 'file.db').as_uri()}?mode=ro", uri=True)) as file,
        pytest.raises(StorageUnavailable, match=told),
        wrap_driver_errors("SQLite", sqlite3.Error),
    ):
        file.execute("INSERT INTO kept VALUES (1)")
    with pytest.raises(StorageUnavailable, match=told), wrap_driver_errors("SQLite", sqlite3.Error):
        sqlite3.connect(tmp_path)
