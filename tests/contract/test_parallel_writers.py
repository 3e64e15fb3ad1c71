"""What every store promises of write blocks that run at the same time, in one process and in several."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest

from circadia.clock import system_milliseconds
from circadia.ids import AgentId, BankId, MessageId, PulseId, RandomIds
from circadia.memory.episodes import EpisodeService, NewEpisode, StoredEpisode
from circadia.records.bank import Trust
from circadia.records.index_entry import Layer
from circadia.records.pulse import PulseStatus
from circadia.stores.base import Store, Tx
from circadia.stores.event_log import EventLog
from circadia.stores.locks import agent_key, bank_key
from circadia.stores.signals.local import LocalSignals
from circadia.stores.sql.pooled_writer import PooledWriter
from circadia.stores.sql_store import SqlStore
from circadia.testing.clock import ManualClock
from tests.contract.conftest import Database, Opener
from tests.contract.rows import agent, at, event, message, number_events, put, session, stored, tags, thread
from tests.contract.test_store_memory import BANK, episode
from tests.contract.test_store_wakes import kept
from tests.contract.wake_rows import pulse

ANN, BOB = agent("ann"), agent("bob")
WORKERS = 50
WAITS_FOR_KEY = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


@pytest.mark.spec("CLU-01")
async def test_blocks_with_a_common_key_run_one_after_the_other_and_see_each_other(open_store: Opener) -> None:
    stores = [await open_store(), await open_store()]
    await stored(stores[0], session(), ANN)

    async def add_mark(number: int) -> None:
        async with stores[number % 2].begin_write() as tx:
            found = await tx.agents.get(ANN.id)
            assert found is not None
            await asyncio.sleep(0)  # whoever could come between does
            await tx.agents.save(replace(found, description=f"{found.description}x"))

    await asyncio.gather(*(add_mark(number) for number in range(40)))
    async with stores[0].begin_read() as tx:
        found = await tx.agents.get(ANN.id)
    assert found is not None
    assert found.description == "x" * 40


@pytest.mark.spec("CLU-01")
async def test_a_name_is_read_again_once_its_agent_is_held(database: Database, open_store: Opener) -> None:
    """A block that had to wait for an agent sees what the other has made of it."""
    store, elsewhere = await open_store(), await open_store()
    await stored(store, session(), ANN)
    may_end, has_begun = asyncio.Event(), asyncio.Event()

    async def describe() -> None:
        async with store.begin_write() as tx:
            found = await tx.agents.get(ANN.id)
            assert found is not None
            await tx.agents.save(replace(found, description="new"))
            has_begun.set()
            await may_end.wait()

    async def disable() -> None:
        async with elsewhere.begin_write() as tx:
            found = await tx.agents.get_by_name(ANN.session_id, "ann")
            assert found is not None
            await tx.agents.save(replace(found, enabled=False))

    first = asyncio.create_task(describe())
    await has_begun.wait()
    second = asyncio.create_task(disable())
    while database.dialect == "postgres" and not await count(store, WAITS_FOR_KEY):
        await asyncio.sleep(0)
    may_end.set()
    await asyncio.gather(first, second)
    async with store.begin_read() as tx:
        found = await tx.agents.get(ANN.id)
    assert found is not None
    assert (found.description, found.enabled) == ("new", False)


@pytest.mark.spec("CLU-01")
async def test_keys_named_together_are_taken_in_one_order(database: Database, open_store: Opener) -> None:
    stores = [await open_store(), await open_store()]
    keys = [agent_key(AgentId(f"agt_{number}")) for number in range(6)] + [bank_key(BankId("bnk"))]

    async def block(number: int) -> None:
        turned = keys[number % 7 :] + keys[: number % 7]
        if number % 2:
            async with stores[0].begin_write(*turned) as tx:
                await tx.events.add([event(number)])
        else:
            async with stores[1].begin_write() as tx:
                await tx.hold(*turned)
                await tx.events.add([event(number)])

    async with asyncio.timeout(30):
        await asyncio.gather(*(block(number) for number in range(60)))
    assert sorted(map(str, await tags(stores[0]))) == sorted(map(str, range(60)))
    for store in stores:
        assert await count_deadlocks(store) == 0


@pytest.mark.spec("CLU-03")
async def test_an_event_written_first_and_committed_last_is_missed_by_nobody(open_store: Opener) -> None:
    """The reader has seen what was written later; then the earlier block commits."""
    store = await open_store()
    is_sequential = store.commits_in_order
    may_end, has_written = asyncio.Event(), asyncio.Event()

    async def late() -> None:
        async with store.begin_write() as tx:
            await tx.events.add([event("late")])
            await tx.events.last_number()  # sends it
            has_written.set()
            await may_end.wait()

    slow = asyncio.create_task(late())
    await has_written.wait()
    quick = asyncio.create_task(put(store, "quick"))
    if not is_sequential:
        await quick
    await number_events(store) if not is_sequential else None
    async with store.begin_read() as tx:
        seen = await tx.events.find_after(0)
    may_end.set()
    await asyncio.gather(slow, quick)
    await number_events(store)
    async with store.begin_read() as tx:
        rest = await tx.events.find_after(seen[-1].number if seen else 0)
    order = ["late", "quick"] if is_sequential else ["quick", "late"]
    assert [found.data["tag"] for found in (*seen, *rest)] == order


@pytest.mark.spec("CLU-03")
async def test_events_of_a_process_that_died_before_it_numbered_them_are_numbered_by_another(
    open_store: Opener,
) -> None:
    first = await open_store()
    await put(first, 1)
    await first.close()
    second = await open_store()
    async with second.begin_read() as tx:
        assert await tx.events.has_unnumbered() is not second.commits_in_order
    await put(second, 2)
    assert await tags(second) == [1, 2]
    async with second.begin_read() as tx:
        assert not await tx.events.has_unnumbered()


@pytest.mark.spec("CLU-108")
@pytest.mark.parametrize("seed", range(3))
async def test_episodes_that_are_appended_side_by_side_are_each_read_once_and_in_order(
    open_store: Opener, seed: int
) -> None:
    """By pages, by the cursor of a pass and by a loaded index, while commits are held up for random times."""
    random, stores = Random(seed), [await open_store(), await open_store()]
    pages, cursor, indexed = list[int](), list[int](), list[int]()
    names, ended = [f"e{number:03}" for number in range(120)], asyncio.Event()
    async with stores[0].begin_write() as tx:
        await tx.banks.add(BANK)

    async def append(store: Store, some: Sequence[str]) -> None:
        for name in some:
            async with store.begin_write() as tx:
                await tx.episodes.add(episode(name))
                await tx.banks.touch(BANK.id, BANK.created_at)
                if random.random() < 0.3:
                    await tx.episodes.get(BANK.id, episode(name).id)  # sends it
                    await asyncio.sleep(random.random() / 50)

    async def read(store: Store) -> None:
        async with store.begin_read() as tx:
            pages.extend(found.number for found in await tx.episodes.find_all(BANK.id, after=last_of(pages), limit=9))
        async with store.begin_read() as tx:
            after = {Layer.EPISODES: last_of(indexed)}
            delta = await tx.banks.fetch_index_delta(BANK.id, after=after, waiting={}, limit=9)
            indexed.extend(row.number for row in delta.entries.get(Layer.EPISODES, ()))
        async with store.begin_write(bank_key(BANK.id)) as tx:
            cursor.extend(found.number for found in await tx.episodes.find_all(BANK.id, after=last_of(cursor), limit=9))

    async def follow(store: Store) -> None:
        while not ended.is_set():
            await read(store)

    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        tasks.create_task(follow(stores[1]))
        await asyncio.gather(*(append(stores[at % 2], names[at::8]) for at in range(8)))
        ended.set()
    while not len(pages) == len(cursor) == len(indexed) == len(names):
        await read(stores[0])
    async with stores[0].begin_read() as tx:
        every = [found.number for found in await tx.episodes.find_all(BANK.id, limit=999)]
    assert pages == cursor == indexed == every


def last_of(numbers: Sequence[int]) -> int:
    return numbers[-1] if numbers else 0


@pytest.mark.spec("CLU-04")
async def test_of_repetitions_that_race_one_is_stored_and_all_get_it(open_store: Opener) -> None:
    stores = [await open_store(), await open_store()]
    clock = ManualClock()
    episodes = EpisodeService(clock, RandomIds(system_milliseconds), EventLog(clock, LocalSignals()))
    async with stores[0].begin_write() as tx:
        await tx.banks.add(BANK)

    async def remember(at: int, key: str | None) -> StoredEpisode:
        said = NewEpisode(text=f"I moved to Porto ({key}).", speaker="ann", trust=Trust.PERSON, key=key)
        async with stores[at % 2].begin_write() as tx:
            return await episodes.remember(tx, BANK, said)

    for key in (None, "k"):
        answers = await asyncio.gather(*(remember(at, key) for at in range(16)))
        assert len({answer.episode.id for answer in answers}) == 1
        assert [answer.new for answer in answers].count(True) == 1


@pytest.mark.spec("CLU-05")
async def test_fifty_workers_claim_each_job_once_and_leave_none(open_store: Opener) -> None:
    stores = [await open_store(), await open_store()]
    jobs = 200
    await kept(stores[0], *(pulse(f"p{number:03}", ANN, seconds=number) for number in range(jobs)))
    claimed: Counter[str] = Counter()
    empty = 0

    async def work(worker: int) -> None:
        nonlocal empty
        while claimed.total() < jobs:
            async with stores[worker % 2].begin_write() as tx:
                new = await tx.pulses.claim(f"w{worker}", ["resident"], now=at(999), until=at(1_020), limit=4)
            claimed.update(job.id for job in new)
            empty += not new
            assert all((job.status, job.epoch, job.owner) == (PulseStatus.PENDING, 1, f"w{worker}") for job in new)

    async with asyncio.timeout(60):
        await asyncio.gather(*(work(worker) for worker in range(WORKERS)))
    assert sorted(claimed.elements()) == [f"p{number:03}" for number in range(jobs)]
    assert empty <= 2 * jobs
    async with stores[0].begin_write() as tx:  # a claim lapses with its lease
        assert await tx.pulses.claim("w", ["resident"], now=at(1_019), until=at(1_100), limit=9) == []
        again = await tx.pulses.claim(
            "w", ["resident"], now=at(1_020), until=at(1_020) + timedelta(seconds=15), limit=1
        )
    assert [(job.id, job.epoch) for job in again] == [("p000", 2)]


IDS = [MessageId("unread")]
DELIVERY_STEPS: dict[str, Callable[[Tx], Awaitable[object]]] = {
    "find_unread": lambda tx: tx.deliveries.find_unread(ANN.id),
    "fetch_inbox": lambda tx: tx.deliveries.fetch_inbox(ANN.id),
    "get": lambda tx: tx.deliveries.get(ANN.id, IDS[0]),
    "count_by_state": lambda tx: tx.deliveries.count_by_state(ANN.id),
    "lease": lambda tx: tx.deliveries.lease(ANN.id, IDS, at(9), now=at(1)),
    "lease_for_pulse": lambda tx: tx.deliveries.lease_for_pulse(ANN.id, IDS, PulseId("p")),
    "mark_seen_by_pulse": lambda tx: tx.deliveries.mark_seen_by_pulse(ANN.id, PulseId("p"), at(1)),
    "mark_handled_by_pulse": lambda tx: tx.deliveries.mark_handled_by_pulse(ANN.id, PulseId("p"), at(1)),
    "mark_seen": lambda tx: tx.deliveries.mark_seen(ANN.id, IDS, at(1)),
    "mark_noticed": lambda tx: tx.deliveries.mark_noticed(ANN.id, IDS),
    "release_expired": lambda tx: tx.deliveries.release_expired(at(5)),
    "delete_handled": lambda tx: tx.deliveries.delete_handled(at(5), limit=10),
}


class UndoneBlock(Exception):
    """Rolls a block back."""


@pytest.mark.spec("CLU-01")
async def test_each_step_of_an_inbox_waits_for_the_block_that_has_its_agent(
    database: Database, open_store: Opener
) -> None:
    """So what a block decides by an inbox holds until it commits, and no two blocks lock its rows in two orders."""
    store, elsewhere = await open_store(), await open_store()
    where = thread("t")
    await stored(store, session(), ANN, where)
    async with store.begin_write() as tx:
        for name in ("unread", "leased", "handled"):
            await tx.messages.add(message(name, to=where), [(ANN.id, False)])
        await tx.deliveries.lease(ANN.id, [MessageId("leased")], at(2), now=at(1))
        await tx.deliveries.mark_handled(ANN.id, [MessageId("handled")], at(2))
    for name, step in DELIVERY_STEPS.items():
        may_end, has_begun = asyncio.Event(), asyncio.Event()

        async def first(may_end: asyncio.Event = may_end, has_begun: asyncio.Event = has_begun) -> None:
            with suppress(UndoneBlock):
                async with store.begin_write(agent_key(ANN.id)) as tx:
                    await tx.agents.get(ANN.id)
                    has_begun.set()
                    await may_end.wait()
                    raise UndoneBlock

        async def second(step: Callable[[Tx], Awaitable[object]] = step) -> None:
            with suppress(UndoneBlock):
                async with elsewhere.begin_write() as tx:
                    await step(tx)
                    await tx.events.last_number()  # sends what is queued
                    raise UndoneBlock

        holding = asyncio.create_task(first())
        await has_begun.wait()
        waiting = asyncio.create_task(second())
        try:
            while database.dialect == "postgres" and not waiting.done() and not await count(store, WAITS_FOR_KEY):
                await asyncio.sleep(0)
            assert not waiting.done(), name
        finally:
            may_end.set()
            await asyncio.gather(holding, waiting)


async def count_deadlocks(store: Store) -> int:
    """Return the number of deadlocks that the database has found."""
    assert isinstance(store, SqlStore)
    if not isinstance(store.writer, PooledWriter):
        return 0
    return await count(store, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")


async def count(store: Store, question: str) -> int:
    """Return the number that the database answers."""
    assert isinstance(store, SqlStore)
    async with store.writer.begin(()) as block:
        return await block.run(lambda connection: connection.exec_driver_sql(question).scalar_one())
