"""Many banks in one process: what a search costs, what a bank takes, what is read after something was forgotten."""

import gc
import tracemalloc
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from circadia.memory.episodes import NewEpisode
from circadia.memory.forgetting import forget, forget_old_episodes
from circadia.memory.search.retrieval import Retrieval
from circadia.memory.search.vectors import stored_vector
from circadia.records.bank import Bank, BankPolicy, Trust
from circadia.records.index_entry import IndexEntry
from circadia.stores.base import Store
from circadia.stores.sql import banks as sql_banks
from circadia.stores.sql import searchable
from tests.memory.steps import least_steps
from tests.memory.world import World, span, vector

SAID = "We met Bob{at} near the harbour in town{at}, and he told us all about his plans; he will be back in May."
DIMENSIONS = 256
EMBEDDER = f"test@1/{DIMENSIONS}"


async def said(world: World, bank: Bank, count: int = 20) -> None:
    """Remember so many turns of a conversation, with vectors as the bundled embedder makes them."""
    async with world.store.begin_read() as tx:
        before = len(await tx.episodes.find_all(bank.id, limit=1000))
    for at in range(before, before + count):
        await world.remember(SAID.format(at=at), bank=bank, conversation=f"conversation-{at // 10}")
    async with world.store.begin_read() as tx:
        new = [each for each in await tx.episodes.find_all(bank.id, limit=1000) if each.vector is None]
    draw = np.random.default_rng(1)
    async with world.store.begin_write() as tx:
        made = {each.number: stored_vector(draw.normal(size=DIMENSIONS) / 16) for each in new}
        await tx.episodes.save_vectors(made, EMBEDDER)


@contextmanager
def rows_read(monkeypatch: pytest.MonkeyPatch) -> Generator[list[int]]:
    """Yield the numbers of the rows that an index reads."""
    read: list[int] = []

    def counted(row: Any) -> IndexEntry:
        read.append(row.number)
        return made(row)

    made = searchable.build_index_entry
    with monkeypatch.context() as patched:
        for module in (sql_banks, searchable):
            patched.setattr(module, "build_index_entry", counted)
        yield read


@pytest.mark.spec("MEM-20")
async def test_a_search_does_as_much_with_400_banks_loaded_as_with_one(sqlite_store: Store) -> None:
    world = await World.made(sqlite_store)
    await said(world, world.bank)
    asked = await world.retrieval.prepare_question("Who is back in May?")
    await world.find_asked(asked)
    alone = await least_steps(lambda: world.find_asked(asked))
    for at in range(400):
        await world.find_asked(asked, bank=await world.add_bank(f"b{at}"))
    await world.find_asked(asked)
    assert len(world.retrieval.loaded) == 401
    assert await least_steps(lambda: world.find_asked(asked)) <= alone + 20


@pytest.mark.spec("MEM-20")
@pytest.mark.parametrize("searched_first", [False, True])
async def test_a_bank_of_20_episodes_takes_30_kib_at_most_however_it_grew(
    sqlite_store: Store, searched_first: bool
) -> None:
    world = await World.made(sqlite_store)
    banks = [await world.add_bank(f"b{at}") for at in range(30)]
    asked = await world.retrieval.prepare_question("harbour")
    for bank in banks:
        if not searched_first:
            await said(world, bank)
        for _ in range(10 * searched_first):  # loaded from its beginning on, it grows with each search
            await said(world, bank, 2)
            if bank in banks[:5]:
                await world.find_asked(asked, bank=bank)
    for bank in banks[:5]:
        await world.find_asked(asked, bank=bank)
    gc.collect()
    tracemalloc.start()
    before, weight = tracemalloc.get_traced_memory()[0], world.retrieval.loaded.weight
    for bank in banks[5:]:
        assert len(await world.find_asked(asked, bank=bank)) == 10
    gc.collect()
    taken, told = tracemalloc.get_traced_memory()[0] - before, world.retrieval.loaded.weight - weight
    tracemalloc.stop()
    assert taken / 25 <= 30 * 1024
    assert told == pytest.approx(taken, rel=0.2), "what it counts by is what it takes"
    assert all(each.nbytes <= 30 * 1024 for each in held(world.retrieval, banks))


def held(retrieval: Retrieval, banks: Sequence[Bank]) -> Sequence[Any]:
    """Return what is kept of banks."""
    return [retrieval.loaded.get(bank.id) for bank in banks]


@pytest.mark.spec("MEM-20")
async def test_of_more_than_fits_the_banks_go_that_were_searched_longest_ago_and_blocks_count_too(
    sqlite_store: Store,
) -> None:
    world = await World.made(sqlite_store, max_bytes=150_000)
    banks = [world.bank, *[await world.add_bank(f"b{at}") for at in range(9)]]
    for bank in banks:
        await said(world, bank)
    for bank in (*banks, *reversed(banks)):
        assert len(await world.texts("harbour", bank=bank)) == 10
    assert world.retrieval.loaded.weight <= 150_000
    assert [each is not None for each in held(world.retrieval, banks)] == [True] * 5 + [False] * 5
    await world.write("human", "x" * 90_000, limit=100_000)
    await world.find("harbour")
    assert [each is not None for each in held(world.retrieval, banks)] == [True] * 2 + [False] * 8


@pytest.mark.spec("MEM-21")
async def test_after_something_was_forgotten_or_retired_the_next_search_reads_no_row_anew_at_any_server(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = world, replace(world, retrieval=Retrieval(world.clock, world.questions, max_bytes=10**9))
    world.questions.by_question["harbour"] = {EMBEDDER: vector("harbour", DIMENSIONS)}
    await said(world, world.bank, 60)
    await world.write("home", "Bob lives near the harbour.")
    world.clock.advance(timedelta(days=3).total_seconds())
    await said(world, world.bank, 5)
    at_first = await here.find("harbour", limit=100)
    assert len(at_first) == len(await there.find("harbour", limit=100)) == 65
    newest = [each.item.id for each in at_first if each.item.number > 60]
    with rows_read(monkeypatch) as read:
        for round_ in range(3):
            async with world.store.begin_write() as tx:
                await forget(tx, await present(tx, world), [newest.pop()])
                if round_ == 1:
                    old = replace(world.bank, policy=BankPolicy(keep_days=2.0))
                    gone = await forget_old_episodes(tx, world.events, old, world.clock.now(), limit=30)
                    assert gone.episodes == 30
            for each in (here, there) if round_ else (here,):  # the other one hears of two at once
                left = await each.find("harbour", limit=100)
                assert len(left) == 64 - round_ - 30 * (round_ > 0)
                anew = replace(world, retrieval=Retrieval(world.clock, world.questions, max_bytes=10**9))
                count = len(read)
                assert left == await anew.find("harbour", limit=100), "an index that is made anew finds the same"
                del read[count:]
        assert read == []


async def present(tx: Any, world: World) -> Bank:
    bank = await tx.banks.get(world.bank.id)
    assert bank is not None
    return bank


@pytest.mark.spec("MEM-21")
@pytest.mark.parametrize(("times", "each"), [(65, 1), (1, 1_001)], ids=["many generations", "many rows"])
async def test_what_an_index_has_not_heard_of_for_long_or_is_much_makes_it_anew(
    sqlite_store: Store, times: int, each: int
) -> None:
    world = await World.made(sqlite_store)
    async with world.store.begin_write() as tx:
        for at in range(times * each + 3):
            turn = NewEpisode(text=f"turn {at}", speaker="Ann", trust=Trust.PERSON)
            await world.episodes.remember(tx, world.bank, turn)
    found = await world.find("turn", limit=2_000)
    assert len(found) == times * each + 3
    ids = sorted((hit.item.number, hit.item.id) for hit in found)
    for at in range(times):
        async with world.store.begin_write() as tx:
            await forget(tx, await present(tx, world), [key for _, key in ids[at * each : (at + 1) * each]])
    assert sorted(await world.texts("turn")) == [f"turn {at}" for at in range(times * each, times * each + 3)]


@pytest.mark.spec("MEM-21")
async def test_a_block_tells_nothing_of_what_was_forgotten_to_a_server_that_has_it_loaded(world: World) -> None:
    made = await world.remember("Bob lives in Oslo.")
    await world.remember("Bob has a boat.")
    value = "Bob lives in Oslo. He has a boat."
    await world.write("bob", value, spans=[span(value, "Bob lives in Oslo.", made.episode.id)])
    assert "Oslo" in await shown(world)
    async with world.store.begin_write() as tx:
        await forget(tx, await present(tx, world), [made.episode.id])
    assert "Oslo" not in await shown(world)
    assert "boat" in await shown(world)


async def shown(world: World) -> str:
    """Return what a context shows of the bank."""
    asked = await world.retrieval.prepare_question("Bob")
    async with world.store.begin_read() as tx:
        bank = await present(tx, world)
        found = await world.contexts.build(tx, bank, asked, stable_tokens=500, fitting_tokens=500)
    return found.stable + found.fitting
