"""What every store promises of write and read blocks."""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from circadia.errors import Conflict, StorageUnavailable
from circadia.ids import AgentId
from circadia.stores.base import Store, Tx
from circadia.stores.locks import agent_key
from tests.contract.conftest import Opener
from tests.contract.rows import agent, at, event, sent, session, stored, tags
from tests.contract.test_store_memory import BANK
from tests.contract.wake_rows import wake

KEY = agent_key(AgentId("agt_busy"))
"""Held by all blocks that take turns."""


class Undone(Exception):
    """Raised in a block to undo it."""


async def put(store: Store, tag: object) -> None:
    """Store an event in a block of its own, which takes its turn."""
    async with store.begin_write(KEY) as tx:
        await tx.events.add([event(tag)])


async def put_and_undo(store: Store, tag: object) -> None:
    """Store an event in a block that fails."""
    async with store.begin_write(KEY) as tx:
        await sent(tx, tag)
        raise Undone


@asynccontextmanager
async def taken_turn(store: Store) -> AsyncGenerator[asyncio.Task[None]]:
    """Hold the turn, with a block tagged `first`, while the body queues others."""
    held, go_on = asyncio.Event(), asyncio.Event()

    async def first() -> None:
        async with store.begin_write(KEY) as tx:
            await sent(tx, "first")
            held.set()
            await go_on.wait()

    task = asyncio.create_task(first())
    await held.wait()
    yield task
    await asyncio.sleep(0)  # lets the tasks of the body begin, and so take their place
    go_on.set()


async def test_a_block_sees_its_own_writes_and_others_see_them_after_it(store: Store) -> None:
    async with store.begin_write() as tx:
        await tx.sessions.add(session())
        assert await tx.sessions.get(session().id) == session()
        async with store.begin_read() as reader:
            assert await reader.sessions.get(session().id) is None
    async with store.begin_read() as reader:
        assert await reader.sessions.get(session().id) == session()


async def test_a_read_block_sees_one_state_to_its_end(store: Store) -> None:
    await put(store, 1)
    async with store.begin_read() as tx:
        before = await tx.events.last_number()
        await put(store, 2)
        assert await tx.events.last_number() == before
    assert await tags(store) == [1, 2]


async def test_a_block_that_raises_is_undone(store: Store) -> None:
    with pytest.raises(Undone):
        await put_and_undo(store, 1)
    await put(store, 2)
    assert await tags(store) == [2]


async def test_a_block_that_raises_among_others_is_undone_alone(store: Store) -> None:
    async with taken_turn(store) as first:
        others = [asyncio.create_task(work) for work in (
            put(store, 2), put_and_undo(store, 3), put_and_undo(store, 4), put(store, 5), put_and_undo(store, 6),
        )]  # fmt: skip
    results = await asyncio.gather(first, *others, return_exceptions=True)
    assert [type(result) for result in results] == [type(None), type(None), Undone, Undone, type(None), Undone]
    assert await tags(store) == ["first", 2, 5]


async def test_a_first_block_that_raises_does_not_touch_those_that_wait(store: Store) -> None:
    held, go_on = asyncio.Event(), asyncio.Event()

    async def fail() -> None:
        async with store.begin_write(KEY) as tx:
            await sent(tx, 1)
            held.set()
            await go_on.wait()
            raise Undone

    failing = asyncio.create_task(fail())
    await held.wait()
    others = [asyncio.create_task(put(store, n)) for n in (2, 3)]
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.gather(*others)
    with pytest.raises(Undone):
        await failing
    assert await tags(store) == [2, 3]


async def test_blocks_run_first_come_first_served(store: Store) -> None:
    async with taken_turn(store) as first:
        others = [asyncio.create_task(put(store, n)) for n in range(300)]
    await asyncio.gather(first, *others)
    assert await tags(store) == ["first", *range(300)]


async def test_acts_of_a_block_that_wrote_nothing_run(store: Store) -> None:
    told: list[int] = []
    async with store.begin_write() as tx:
        tx.after_commit(lambda: told.append(1))
    assert told == [1]


async def test_an_act_that_raises_is_logged_and_hinders_no_other(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[int] = []

    def fail() -> None:
        raise ValueError("an act's own mistake")

    async with store.begin_write() as tx:
        await sent(tx, 1)
        tx.after_commit(fail)
        tx.after_commit(lambda: told.append(1))
    assert told == [1]
    assert "an act's own mistake" in caplog.text
    await put(store, 2)


@pytest.mark.parametrize("flaw", ["raises", "cannot be stored", "sent nothing"])
async def test_acts_of_a_failure_run_once_where_a_block_fails_and_never_where_it_is_durable(
    store: Store, flaw: str
) -> None:
    told: list[str] = []
    await stored(store, session())
    async with store.begin_write() as tx:
        await tx.wakes.add(wake("same", agent()))
        tx.after_rollback(lambda: told.append("durable"))

    async def fails() -> None:
        async with store.begin_write() as tx:
            tx.after_commit(lambda: told.append("durable"))
            tx.after_rollback(lambda: told.append("failed"))
            if flaw != "sent nothing":
                await sent(tx, 1)
            if flaw == "cannot be stored":
                await tx.wakes.add(wake("same", agent()))
            else:
                raise ValueError(flaw)

    with pytest.raises((ValueError, Conflict)):
        await fails()
    assert told == ["failed"]


async def test_a_block_cancelled_inside_is_undone_alone(store: Store) -> None:
    inside = asyncio.Event()

    async def cancelled() -> None:
        async with store.begin_write() as tx:
            await sent(tx, 2)
            inside.set()
            await asyncio.Event().wait()

    async with taken_turn(store) as first:
        second, third = asyncio.create_task(cancelled()), asyncio.create_task(put(store, 3))
    await inside.wait()
    second.cancel()
    await asyncio.gather(first, third)
    with pytest.raises(asyncio.CancelledError):
        await second
    assert await tags(store) == ["first", 3]


async def test_a_block_cancelled_in_the_queue_leaves_no_gap(store: Store) -> None:
    async with taken_turn(store) as first:
        second, third = asyncio.create_task(put(store, 2)), asyncio.create_task(put(store, 3))
        await asyncio.sleep(0)
        second.cancel()
    await asyncio.gather(first, third)
    assert second.cancelled()
    assert await tags(store) == ["first", 3]


async def test_blocks_all_cancelled_in_the_queue_do_not_keep_the_one_before_them_from_its_commit(store: Store) -> None:
    async with taken_turn(store) as first:
        others = [asyncio.create_task(put(store, n)) for n in range(5)]
        await asyncio.sleep(0)
        for other in others:
            other.cancel()
    await first
    assert await tags(store) == ["first"]


@pytest.mark.parametrize("seed", range(5))
async def test_whatever_fails_or_is_cancelled_just_what_was_acknowledged_is_stored(store: Store, seed: int) -> None:
    chance = random.Random(seed)
    acknowledged: list[int] = []
    acts: list[int] = []

    async def block(n: int, *, fails: bool, rows: int) -> None:
        async with store.begin_write(KEY) as tx:
            tx.after_commit(lambda: acts.append(n))
            for _ in range(rows):
                await (sent(tx, n) if n % 2 else tx.events.add([event(n)]))
            if fails:
                raise Undone
        acknowledged.append(n)

    rows = [chance.randrange(3) for _ in range(60)]
    tasks = [asyncio.create_task(block(n, fails=chance.random() < 0.3, rows=rows[n])) for n in range(60)]
    for task in chance.sample(tasks, 20):
        for _ in range(chance.randrange(4)):
            await put(store, "between")
        task.cancel()
    async with asyncio.timeout(60):
        await asyncio.gather(*tasks, return_exceptions=True)
    await put(store, "end")  # the store still works
    stored = [tag for tag in await tags(store) if isinstance(tag, int)]
    assert stored == [n for n in acts for _ in range(rows[n])]
    assert set(acknowledged) <= set(acts)
    for n in set(acts) - set(acknowledged):
        assert tasks[n].cancelled()


async def test_a_block_in_a_block_of_the_same_task_is_refused_and_does_not_hang(store: Store) -> None:
    async with store.begin_write() as tx:
        with pytest.raises(RuntimeError):
            await put(store, "inner")
        await sent(tx, "outer")
    assert await tags(store) == ["outer"]


async def test_a_transaction_ends_with_its_block(store: Store) -> None:
    kept: list[Tx] = []
    async with store.begin_write() as tx:
        kept.append(tx)
    async with store.begin_read() as tx:
        kept.append(tx)
    for old in kept:
        with pytest.raises(RuntimeError):
            await old.events.last_number()


async def test_a_read_block_writes_nothing(store: Store) -> None:
    async with store.begin_read() as tx:
        with pytest.raises(RuntimeError):
            tx.after_commit(lambda: None)
        with pytest.raises(RuntimeError):
            await tx.events.add([event(1)])
        with pytest.raises(StorageUnavailable):
            await tx.sessions.add(session())
    assert await tags(store) == []


async def test_what_a_block_keeps_for_its_end_is_there_when_the_block_reads_it(store: Store) -> None:
    async with store.begin_write() as tx:
        await tx.events.add([event(1)])
        await tx.banks.add(BANK)
        await tx.banks.touch(BANK.id, at(0))
        await tx.banks.touch(BANK.id, at(1))
        found = await tx.banks.get(BANK.id)
        assert found is not None
        assert found.written_at == at(1)
        await tx.banks.touch(BANK.id, at(2))
        await tx.events.add([event(2), event(3)])
        found = await tx.banks.get(BANK.id)
        assert found is not None
        assert found.written_at == at(2)
    assert await tags(store) == [1, 2, 3]


@pytest.mark.parametrize("count", [1, 8, 9, 500])
async def test_what_a_block_keeps_is_stored_in_order_however_much_it_is(store: Store, count: int) -> None:
    await stored(store, session())
    for begin in (0, count):
        async with store.begin_write() as tx:
            for n in range(count):
                await tx.events.add([event(begin + n)])
                await tx.sessions.touch(session().id, at(0))
    assert await tags(store) == list(range(2 * count))


async def test_what_a_block_kept_and_cannot_store_undoes_it_alone(store: Store) -> None:
    told: list[str] = []

    async def unfit() -> None:
        async with store.begin_write() as tx:
            tx.after_commit(lambda: told.append("unfit"))
            await sent(tx, 2)
            await tx.wakes.add(wake("same", agent()))
            await tx.events.add([event(3)])

    async with store.begin_write() as tx:
        await tx.wakes.add(wake("same", agent()))
    async with taken_turn(store) as first:
        others = [asyncio.create_task(unfit()), asyncio.create_task(put(store, 4))]
    results = await asyncio.gather(first, *others, return_exceptions=True)
    assert [type(result) for result in results] == [type(None), Conflict, type(None)]
    assert told == []
    assert await tags(store) == ["first", 4]


async def test_more_read_blocks_than_connections_wait_for_each_other(store: Store) -> None:
    await put(store, 1)
    assert await asyncio.gather(*(tags(store) for _ in range(50))) == [[1]] * 50


async def test_a_cancelled_read_gives_its_connection_back(store: Store) -> None:
    for _ in range(3):
        tasks = [asyncio.create_task(tags(store)) for _ in range(20)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    await put(store, 1)
    assert await tags(store) == [1]


async def test_close_lets_blocks_end_and_then_refuses_all(open_store: Opener) -> None:
    store = await open_store()
    async with taken_turn(store) as first:
        other = asyncio.create_task(put(store, 2))
        await asyncio.sleep(0)
        closing = asyncio.create_task(store.close())
    await asyncio.gather(first, other, closing)
    for refused in (put(store, 3), tags(store), store.ping()):
        with pytest.raises(StorageUnavailable):
            await refused
    assert await tags(await open_store()) == ["first", 2]


async def test_ping_returns_while_the_database_answers(store: Store) -> None:
    await store.ping()
    async with taken_turn(store) as first:
        await store.ping()  # a writer at work does not hinder it
    await first
