"""When a write block of SQLite returns: no sooner than the disk has it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from circadia.errors import StorageUnavailable
from circadia.stores.base import Store
from circadia.stores.sql.group_commit import GroupCommitWriter
from circadia.stores.sql_store import SqlStore
from circadia.stores.sqlite import open_sqlite
from tests.contract.rows import put, read_tags, sent, tags
from tests.fixtures.database_file import put_database


class Undone(Exception):
    """Raised in a block to undo it."""


class Disk:
    """A disk that answers no sync until it may, and then perhaps not well."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        assert isinstance(store, SqlStore)
        assert isinstance(store.writer, GroupCommitWriter)
        link = store.writer.link
        self._sync = link.sync
        self.asked = 0
        """How many syncs have begun."""
        self.may_answer = asyncio.Event()
        self.failure: Exception | None = None
        self._begun = asyncio.Condition()
        monkeypatch.setattr(link, "sync", self._answer)

    async def _answer(self) -> None:
        async with self._begun:
            self.asked += 1
            self._begun.notify_all()
        await self.may_answer.wait()
        if self.failure is not None:
            raise self.failure
        await self._sync()

    async def begun(self, syncs: int) -> None:
        """Return when so many syncs have begun."""
        async with self._begun:
            await self._begun.wait_for(lambda: self.asked >= syncs)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = await open_sqlite(put_database(tmp_path))
    yield store
    await store.close()


@pytest.fixture
def disk(store: Store, monkeypatch: pytest.MonkeyPatch) -> Disk:
    """The disk of the store."""
    return Disk(store, monkeypatch)


async def test_a_block_returns_no_sooner_than_the_disk_has_it_and_others_run_meanwhile(
    store: Store, disk: Disk
) -> None:
    first = asyncio.create_task(put(store, 1))
    await disk.begun(1)
    others = [asyncio.create_task(put(store, n)) for n in (2, 3)]
    async with asyncio.timeout(60):
        while await read_tags(store) != [1, 2, 3]:
            await asyncio.sleep(0)
    assert disk.asked == 1
    assert not any(task.done() for task in (first, *others))
    disk.may_answer.set()
    await asyncio.gather(first, *others)
    assert disk.asked == 2  # those that were committed during the first share the second


async def test_a_block_that_the_disk_may_not_have_fails_and_its_acts_do_not_run(store: Store, disk: Disk) -> None:
    told: list[str] = []

    async def block() -> None:
        async with store.begin_write() as tx:
            await sent(tx, 1)
            tx.after_commit(lambda: told.append("act"))

    disk.may_answer.set()
    disk.failure = StorageUnavailable("the disk is gone")
    with pytest.raises(StorageUnavailable, match="may not be on disk: the disk is gone"):
        await block()
    assert told == []
    disk.failure = None
    await block()
    assert told == ["act"]


async def test_acts_run_in_the_order_of_commits_once_the_disk_has_them(store: Store, disk: Disk) -> None:
    told: list[tuple[object, ...]] = []

    async def block(n: int, *, fails: bool = False) -> None:
        async with store.begin_write() as tx:
            tx.after_commit(lambda: told.append(("act", n, "a")))
            await sent(tx, n)
            tx.after_commit(lambda: told.append(("act", n, "b")))
            if fails:
                raise Undone
        told.append(("returned", n))

    blocks = [asyncio.create_task(block(n, fails=n == 2)) for n in (1, 2, 3)]
    await disk.begun(1)
    async with asyncio.timeout(60):
        while await read_tags(store) != [1, 3]:
            await asyncio.sleep(0)
    assert told == []
    disk.may_answer.set()
    await asyncio.gather(*blocks, return_exceptions=True)
    assert [each for each in told if each[0] == "act"] == [
        ("act", 1, "a"), ("act", 1, "b"), ("act", 3, "a"), ("act", 3, "b"),
    ]  # fmt: skip
    assert told.index(("act", 3, "b")) < told.index(("returned", 3))
    assert ("returned", 2) not in told


async def test_a_block_cancelled_while_it_waits_for_the_disk_is_stored_and_its_acts_run(
    store: Store, disk: Disk
) -> None:
    told: list[str] = []

    async def block() -> None:
        async with store.begin_write() as tx:
            await sent(tx, 1)
            tx.after_commit(lambda: told.append("act"))

    task = asyncio.create_task(block())
    await disk.begun(1)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert told == []
    disk.may_answer.set()
    await put(store, 2)
    assert told == ["act"]
    assert await tags(store) == [1, 2]
