"""How the writer runs blocks and makes them durable, seen from the connection."""

import asyncio
import gc
from collections.abc import Sequence
from contextlib import suppress
from typing import TypeVar, cast
from weakref import ref

import pytest
from sqlalchemy import Connection

from circadia.errors import StorageUnavailable
from circadia.stores.sql import group_commit
from circadia.stores.sql.group_commit import GroupCommitWriter, GroupedBlock
from circadia.stores.sql.link import OpeningStatements, Work

FULL_BLOCKS = 128
GROUP_BLOCKS = 4

T = TypeVar("T")

SYNC_SECONDS = 0.5
"""What a sync takes that lasts far longer than the blocks of a test."""
OPENINGS = OpeningStatements(write=("BEGIN",), read=("BEGIN",))


class FakeLink:
    """A connection to nothing, which notes the statements of control and can fail on one."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.fail_on: str | None = None
        self.at_once = False
        """Whether statements are done without a wait, as SQLite's are."""
        self.syncing = asyncio.Event()
        self.may_sync = asyncio.Event()
        self.may_sync.set()

    async def run(
        self, work: Work[T], *, first: Sequence[str] = (), opens: bool = False, short: bool | None = None
    ) -> T:
        self.sent += first
        if not self.at_once:
            await asyncio.sleep(0)
        if self.fail_on in first:
            raise StorageUnavailable(f"no {self.fail_on}")
        return work(cast("Connection", None))

    async def sync(self) -> None:
        self.sent.append("sync")
        self.syncing.set()
        await self.may_sync.wait()
        self.sent.append("synced")
        if self.fail_on == f"sync {self.sent.count('sync')}":
            raise StorageUnavailable("no sync")

    def check(self) -> None:
        pass

    def roll_back(self) -> None:
        self.sent.append("ROLLBACK")

    async def drop(self) -> None:
        self.sent.append("(closed)")


@pytest.fixture
def link() -> FakeLink:
    return FakeLink()


@pytest.fixture
def writer(link: FakeLink) -> GroupCommitWriter:
    return GroupCommitWriter(link, OPENINGS)


@pytest.fixture(autouse=True)
def no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow machine does not end a group before its test does."""
    monkeypatch.setattr(group_commit, "FULL_SECONDS", 60.0)


async def put(writer: GroupCommitWriter, link: FakeLink, tag: str, *, fails: bool = False) -> None:
    """Run a block whose only statement is `tag`."""
    async with GroupedBlock(writer) as block:
        await block.run(lambda connection: link.sent.append(tag))
        if fails:
            raise LookupError


async def test_a_block_alone_is_committed_and_synced(writer: GroupCommitWriter, link: FakeLink) -> None:
    await put(writer, link, "one")
    assert link.sent == ["BEGIN", "one", "COMMIT", "sync", "synced"]


@pytest.mark.parametrize("fails", [False, True])
async def test_what_a_block_keeps_goes_with_it_and_is_not_left_to_the_collector(
    writer: GroupCommitWriter, link: FakeLink, fails: bool
) -> None:
    class BlockResource:
        """Stands for the rows and signals that a block's acts hold."""

        def tell(self) -> None: ...

    async def one() -> ref[BlockResource]:
        kept = BlockResource()
        with suppress(LookupError):
            async with GroupedBlock(writer) as block:
                block.after_commit(kept.tell)
                await block.run(lambda connection: link.sent.append("one"))
                if fails:
                    raise LookupError
        return ref(kept)

    gc.disable()
    try:
        gone = [await one() for _ in range(3)]
        await writer.close()  # the task of the last sync has ended
        assert [each() for each in gone] == [None, None, None]
    finally:
        gc.enable()


async def test_a_writer_is_closed_in_the_moment_in_which_its_last_block_ends(
    writer: GroupCommitWriter, link: FakeLink
) -> None:
    """Since Python 3.12 `gather` does not yield to the loop if all tasks have ended: a loop around it spins."""
    link.at_once = True
    await put(writer, link, "one")
    await writer.close()
    assert link.sent[-1] == "(closed)"


async def test_a_block_that_sends_nothing_costs_nothing(writer: GroupCommitWriter, link: FakeLink) -> None:
    async with GroupedBlock(writer):
        pass
    assert link.sent == []


async def test_blocks_that_wait_share_a_commit_each_on_its_savepoint(writer: GroupCommitWriter, link: FakeLink) -> None:
    await asyncio.gather(*(put(writer, link, tag) for tag in ("one", "two", "three")))
    assert link.sent == [
        *("BEGIN", "one"),
        *("SAVEPOINT block", "two"),
        *("RELEASE SAVEPOINT block", "SAVEPOINT block", "three"),
        *("COMMIT", "sync", "synced"),
    ]


async def test_a_block_that_fails_goes_back_to_its_savepoint(writer: GroupCommitWriter, link: FakeLink) -> None:
    await asyncio.gather(
        put(writer, link, "one"),
        put(writer, link, "two", fails=True),
        put(writer, link, "three"),
        return_exceptions=True,
    )
    assert link.sent == [
        *("BEGIN", "one"),
        *("SAVEPOINT block", "two", "ROLLBACK TO SAVEPOINT block"),
        *("RELEASE SAVEPOINT block", "SAVEPOINT block", "three"),
        *("COMMIT", "sync", "synced"),
    ]


async def test_a_first_block_that_fails_takes_the_empty_transaction_with_it(
    writer: GroupCommitWriter, link: FakeLink
) -> None:
    await asyncio.gather(put(writer, link, "one", fails=True), put(writer, link, "two"), return_exceptions=True)
    assert link.sent == ["BEGIN", "one", "ROLLBACK", "BEGIN", "two", "COMMIT", "sync", "synced"]


async def test_a_block_that_nobody_waits_behind_is_committed_during_a_sync_and_shares_the_next(
    writer: GroupCommitWriter, link: FakeLink
) -> None:
    link.may_sync.clear()
    first = asyncio.create_task(put(writer, link, "one"))
    await link.syncing.wait()
    others = [first]
    for commits, tag in enumerate(("two", "three"), start=2):
        others.append(asyncio.create_task(put(writer, link, tag)))
        async with asyncio.timeout(60):
            while link.sent.count("COMMIT") < commits:
                await asyncio.sleep(0)
    assert link.sent[3:] == ["sync", "BEGIN", "two", "COMMIT", "BEGIN", "three", "COMMIT"]
    assert not any(task.done() for task in others)
    link.may_sync.set()
    await asyncio.gather(*others)
    assert link.sent[10:] == ["synced", "sync", "synced"]


async def test_blocks_that_one_sync_let_go_form_the_next_group_though_none_waits_for_another(
    writer: GroupCommitWriter, link: FakeLink
) -> None:
    link.at_once = True

    async def twice(tag: str) -> None:
        for number in (1, 2):
            await put(writer, link, f"{tag}{number}")

    await asyncio.gather(twice("a"), twice("b"), twice("c"))
    assert link.sent == [
        "BEGIN", "a1", "SAVEPOINT block", "b1", "RELEASE SAVEPOINT block", "SAVEPOINT block", "c1", "COMMIT",
        "sync", "synced",
        "BEGIN", "a2", "SAVEPOINT block", "b2", "RELEASE SAVEPOINT block", "SAVEPOINT block", "c2", "COMMIT",
        "sync", "synced",
    ]  # fmt: skip


async def test_who_waits_for_the_next_sync_shares_it_with_those_whom_the_last_one_let_go(
    writer: GroupCommitWriter, link: FakeLink
) -> None:
    link.at_once = True
    link.may_sync.clear()

    async def twice() -> None:
        await put(writer, link, "a1")
        await put(writer, link, "a2")

    both = [asyncio.create_task(twice())]
    await link.syncing.wait()
    both.append(asyncio.create_task(put(writer, link, "b")))
    async with asyncio.timeout(60):
        while link.sent.count("COMMIT") < 2:
            await asyncio.sleep(0)
    await asyncio.sleep(SYNC_SECONDS)
    link.may_sync.set()
    await asyncio.gather(*both)
    assert link.sent[3:] == ["sync", "BEGIN", "b", "COMMIT", "synced", "BEGIN", "a2", "COMMIT", "sync", "synced"]


async def test_a_block_that_takes_long_keeps_nobody_from_the_disk(writer: GroupCommitWriter, link: FakeLink) -> None:
    link.may_sync.clear()
    ended = asyncio.Event()

    async def long() -> None:
        async with GroupedBlock(writer) as block:
            await block.run(lambda connection: link.sent.append("long"))
            await ended.wait()

    one = asyncio.create_task(put(writer, link, "one"))
    await link.syncing.wait()
    two = asyncio.create_task(put(writer, link, "two"))
    async with asyncio.timeout(60):
        while link.sent.count("COMMIT") < 2:
            await asyncio.sleep(0)
        three = asyncio.create_task(long())
        while "long" not in link.sent:
            await asyncio.sleep(0)
        await asyncio.sleep(SYNC_SECONDS)
        link.may_sync.set()
        await asyncio.gather(one, two)
    assert not three.done()
    ended.set()
    await three


async def test_a_group_is_committed_at_few_blocks_while_the_disk_is_idle_and_at_many_while_it_is_busy(
    writer: GroupCommitWriter, link: FakeLink
) -> None:
    link.may_sync.clear()
    blocks = [asyncio.create_task(put(writer, link, "x")) for _ in range(GROUP_BLOCKS + FULL_BLOCKS + 2)]
    async with asyncio.timeout(60):
        while link.sent.count("COMMIT") < 3:
            await asyncio.sleep(0)
    groups = [group.split().count("x") for group in " ".join(link.sent).split("COMMIT")]
    assert groups == [GROUP_BLOCKS, FULL_BLOCKS, 2, 0]
    link.may_sync.set()
    await asyncio.gather(*blocks)


async def test_a_group_takes_no_more_when_it_is_old(
    writer: GroupCommitWriter, link: FakeLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "FULL_SECONDS", 0.0)
    await asyncio.gather(*(put(writer, link, "x") for _ in range(12)))
    assert link.sent.count("COMMIT") == 12


async def test_a_commit_that_fails_fails_the_whole_group_and_runs_no_act(
    writer: GroupCommitWriter, link: FakeLink
) -> None:
    acts: list[str] = []

    async def block(tag: str) -> None:
        async with GroupedBlock(writer) as block:
            block.after_commit(lambda: acts.append(tag))
            await block.run(lambda connection: link.sent.append(tag))

    link.fail_on = "COMMIT"
    results = await asyncio.gather(*(block(tag) for tag in ("one", "two")), return_exceptions=True)
    assert [str(result) for result in results] == ["the commit failed: no COMMIT"] * 2
    assert acts == []
    assert link.sent[-2:] == ["COMMIT", "(closed)"]
    link.fail_on = None
    await block("three")
    assert acts == ["three"]


async def test_a_sync_that_fails_fails_those_that_share_it_and_runs_no_act(
    writer: GroupCommitWriter, link: FakeLink
) -> None:
    acts: list[str] = []

    async def block(tag: str) -> None:
        async with GroupedBlock(writer) as block:
            block.after_commit(lambda: acts.append(tag))
            await block.run(lambda connection: link.sent.append(tag))

    link.may_sync.clear()
    first = asyncio.create_task(block("one"))
    await link.syncing.wait()
    others = [asyncio.create_task(block(tag)) for tag in ("two", "three")]
    async with asyncio.timeout(60):
        while link.sent.count("COMMIT") < 2:
            await asyncio.sleep(0)
    link.fail_on = "sync 2"
    link.may_sync.set()
    await first
    assert [type(each) for each in await asyncio.gather(*others, return_exceptions=True)] == [StorageUnavailable] * 2
    assert acts == ["one"]
    await block("four")
    assert acts == ["one", "four"]


async def test_a_transaction_lost_under_a_block_fails_those_that_had_ended_and_not_those_that_wait(
    writer: GroupCommitWriter, link: FakeLink
) -> None:
    link.fail_on = "ROLLBACK TO SAVEPOINT block"
    results = await asyncio.gather(
        put(writer, link, "one"),
        put(writer, link, "two", fails=True),
        put(writer, link, "three"),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [StorageUnavailable, LookupError, type(None)]
    assert link.sent[-5:] == ["BEGIN", "three", "COMMIT", "sync", "synced"]


async def test_a_block_that_cannot_begin_is_refused_and_the_next_tries_anew(
    writer: GroupCommitWriter, link: FakeLink
) -> None:
    link.fail_on = "BEGIN"
    with pytest.raises(StorageUnavailable):
        await put(writer, link, "one")
    link.fail_on = None
    await put(writer, link, "two")
    assert link.sent == ["BEGIN", "ROLLBACK", "BEGIN", "two", "COMMIT", "sync", "synced"]


async def test_a_turn_that_comes_together_with_a_cancellation_is_passed_on(
    writer: GroupCommitWriter, link: FakeLink
) -> None:
    async with asyncio.timeout(60):
        async with GroupedBlock(writer) as block:
            await block.run(lambda connection: link.sent.append("one"))
            two, three = (asyncio.create_task(put(writer, link, tag)) for tag in ("two", "three"))
            await asyncio.sleep(0)
            asyncio.get_running_loop().call_soon(two.cancel)  # runs before the turn is given and taken
        await three
    assert two.cancelled()
    assert link.sent == ["BEGIN", "one", "SAVEPOINT block", "three", "COMMIT", "sync", "synced"]


async def test_a_store_that_is_closed_lets_what_runs_end_first(writer: GroupCommitWriter, link: FakeLink) -> None:
    link.may_sync.clear()
    first = asyncio.create_task(put(writer, link, "one"))
    await link.syncing.wait()
    closing = asyncio.create_task(writer.close())
    await asyncio.sleep(0)
    with pytest.raises(StorageUnavailable, match="closed"):
        await put(writer, link, "two")
    link.may_sync.set()
    await asyncio.gather(first, closing)
    assert link.sent[-2:] == ["synced", "(closed)"]
