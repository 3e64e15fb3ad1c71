"""How the writer groups blocks, seen from the connection."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar, cast

import pytest
from sqlalchemy import Connection

from circadia.errors import StorageUnavailable
from circadia.stores.sql.group_commit import Block, Writer
from circadia.stores.sql.link import Openings

T = TypeVar("T")

OPENINGS = Openings(write=("BEGIN",), read=("BEGIN",))


class FakeLink:
    """A connection to nothing, which notes the statements of control and can fail on one."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.fail_on: str | None = None
        self.at_once = False
        """Whether work is done without a wait, as SQLite's is; commits are always waited for."""
        self.committing = asyncio.Event()
        self.may_commit = asyncio.Event()
        self.may_commit.set()

    async def run(self, work: Callable[[Connection], T], *, first: Sequence[str] = (), opens: bool = False) -> T:
        self.sent += first
        if not self.at_once or "COMMIT" in first:
            await asyncio.sleep(0)
        if self.fail_on in first:
            raise StorageUnavailable(f"no {self.fail_on}")
        if "COMMIT" in first:
            self.committing.set()
            await self.may_commit.wait()
        return work(cast("Connection", None))

    def finish(self) -> None:
        self.sent.append("ROLLBACK")

    async def drop(self) -> None:
        self.sent.append("(closed)")


@pytest.fixture
def link() -> FakeLink:
    return FakeLink()


@pytest.fixture
def writer(link: FakeLink) -> Writer:
    return Writer(link, OPENINGS)


async def put(writer: Writer, link: FakeLink, tag: str, *, fails: bool = False) -> None:
    """Run a block whose only statement is `tag`."""
    async with Block(writer) as block:
        await block.run(lambda connection: link.sent.append(tag))
        if fails:
            raise LookupError


async def test_a_block_alone_needs_no_savepoint(writer: Writer, link: FakeLink) -> None:
    await put(writer, link, "one")
    assert link.sent == ["BEGIN", "one", "COMMIT"]


async def test_a_block_that_sends_nothing_costs_nothing(writer: Writer, link: FakeLink) -> None:
    async with Block(writer):
        pass
    assert link.sent == []


async def test_blocks_that_wait_share_a_commit_each_on_its_savepoint(writer: Writer, link: FakeLink) -> None:
    await asyncio.gather(*(put(writer, link, tag) for tag in ("one", "two", "three")))
    assert link.sent == [
        *("BEGIN", "one"),
        *("SAVEPOINT block", "two"),
        *("RELEASE SAVEPOINT block", "SAVEPOINT block", "three"),
        "COMMIT",
    ]


async def test_a_block_that_fails_goes_back_to_its_savepoint(writer: Writer, link: FakeLink) -> None:
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
        "COMMIT",
    ]


async def test_a_first_block_that_fails_takes_the_empty_transaction_with_it(writer: Writer, link: FakeLink) -> None:
    await asyncio.gather(put(writer, link, "one", fails=True), put(writer, link, "two"), return_exceptions=True)
    assert link.sent == ["BEGIN", "one", "ROLLBACK", "BEGIN", "two", "COMMIT"]


async def test_blocks_that_come_during_a_commit_form_the_next_group(writer: Writer, link: FakeLink) -> None:
    link.may_commit.clear()
    first = asyncio.create_task(put(writer, link, "one"))
    await link.committing.wait()
    others = [asyncio.create_task(put(writer, link, tag)) for tag in ("two", "three")]
    await asyncio.sleep(0)
    assert link.sent == ["BEGIN", "one", "COMMIT"]
    link.may_commit.set()
    await asyncio.gather(first, *others)
    assert link.sent[3:] == ["BEGIN", "two", "SAVEPOINT block", "three", "COMMIT"]


async def test_blocks_that_one_commit_let_go_form_the_next_group_though_none_waits_for_another(
    writer: Writer, link: FakeLink
) -> None:
    link.at_once = True

    async def twice(tag: str) -> None:
        for number in (1, 2):
            await put(writer, link, f"{tag}{number}")

    await asyncio.gather(twice("a"), twice("b"), twice("c"))
    assert link.sent == [
        "BEGIN", "a1", "SAVEPOINT block", "b1", "RELEASE SAVEPOINT block", "SAVEPOINT block", "c1", "COMMIT",
        "BEGIN", "a2", "SAVEPOINT block", "b2", "RELEASE SAVEPOINT block", "SAVEPOINT block", "c2", "COMMIT",
    ]  # fmt: skip


@pytest.mark.parametrize(("blocks", "seconds", "commits"), [(4, 60.0, 3), (128, 60.0, 1), (128, 0.0, 12)])
async def test_a_group_ends_at_its_bound_of_blocks_or_of_age(
    link: FakeLink, blocks: int, seconds: float, commits: int
) -> None:
    writer = Writer(link, OPENINGS, blocks=blocks, seconds=seconds)
    await asyncio.gather(*(put(writer, link, "x") for _ in range(12)))
    assert link.sent.count("COMMIT") == commits
    assert link.sent.count("x") == 12


async def test_a_commit_that_fails_fails_the_whole_group_and_runs_no_act(writer: Writer, link: FakeLink) -> None:
    acts: list[str] = []

    async def block(tag: str) -> None:
        async with Block(writer) as block:
            block.after_commit(lambda: acts.append(tag))
            await block.run(lambda connection: link.sent.append(tag))

    link.fail_on = "COMMIT"
    results = await asyncio.gather(*(block(tag) for tag in ("one", "two")), return_exceptions=True)
    assert [type(result) for result in results] == [StorageUnavailable] * 2
    assert acts == []
    assert link.sent[-2:] == ["COMMIT", "(closed)"]
    link.fail_on = None
    await block("three")
    assert acts == ["three"]


async def test_a_transaction_lost_under_a_block_fails_those_that_had_ended_and_not_those_that_wait(
    writer: Writer, link: FakeLink
) -> None:
    link.fail_on = "ROLLBACK TO SAVEPOINT block"
    results = await asyncio.gather(
        put(writer, link, "one"),
        put(writer, link, "two", fails=True),
        put(writer, link, "three"),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [StorageUnavailable, LookupError, type(None)]
    assert link.sent[-3:] == ["BEGIN", "three", "COMMIT"]


async def test_a_block_that_cannot_begin_is_refused_and_the_next_tries_anew(writer: Writer, link: FakeLink) -> None:
    link.fail_on = "BEGIN"
    with pytest.raises(StorageUnavailable):
        await put(writer, link, "one")
    link.fail_on = None
    await put(writer, link, "two")
    assert link.sent == ["BEGIN", "ROLLBACK", "BEGIN", "two", "COMMIT"]


async def test_a_turn_that_comes_together_with_a_cancellation_is_passed_on(writer: Writer, link: FakeLink) -> None:
    async with asyncio.timeout(10):
        async with Block(writer) as block:
            await block.run(lambda connection: link.sent.append("one"))
            two, three = (asyncio.create_task(put(writer, link, tag)) for tag in ("two", "three"))
            await asyncio.sleep(0)
            asyncio.get_running_loop().call_soon(two.cancel)  # runs after the turn was given and before it is taken
        await three
    assert two.cancelled()
    assert link.sent == ["BEGIN", "one", "SAVEPOINT block", "three", "COMMIT"]
