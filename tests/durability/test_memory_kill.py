"""A process that is killed while eight writers remember: each acknowledged episode is there, once, and is found."""

import asyncio
import random
import signal
from pathlib import Path

import pytest

from circadia.clock import SystemClock
from circadia.ids import BankId
from circadia.memory.search.question import Question
from circadia.memory.search.retrieval import Retrieval
from circadia.memory.search.terms import question_terms
from circadia.records.bank import Bank
from circadia.records.episode import Episode
from circadia.stores.base import Store
from circadia.stores.postgres import open_postgres
from circadia.stores.sqlite import open_sqlite
from tests.durability.remembering import BANK, WRITERS, text_of
from tests.fixtures.program import Program
from tests.memory.world import Steered

PROGRAM = "tests.durability.remembering"
PAGE = 1000


async def killed_life(place: str, life: str, acknowledged: int) -> set[str]:
    """Let the program write until it has told of so many episodes, kill it, and return all that it told of."""
    process = await Program.start([PROGRAM], place, life)
    async with asyncio.timeout(60):
        told = [await process.stdout.readline() for _ in range(acknowledged)]
    process.send_signal(signal.SIGKILL)
    told += (await process.stdout.read()).splitlines(keepends=True)
    await process.wait()
    return {line.decode().strip() for line in told if line.endswith(b"\n")}


async def kept(store: Store, bank: BankId) -> list[Episode]:
    """Return all episodes of the bank."""
    found: list[Episode] = []
    async with store.begin_read() as tx:
        while page := await tx.episodes.find_all(bank, after=found[-1].number if found else 0, limit=PAGE):
            found += page
    return found


async def found_by(store: Store, retrieval: Retrieval, bank: Bank, key: str) -> set[str | None]:
    """Return the keys of what a search for an episode finds."""
    async with store.begin_read() as tx:
        hits = await retrieval.find(tx, bank, Question(terms=question_terms(text_of(key))))
    return {hit.item.key for hit in hits if isinstance(hit.item, Episode)}


async def show_that_nothing_is_lost(place: str, kills: int) -> None:
    draw = random.Random(4)
    acknowledged: set[str] = set()
    store = await (open_postgres(place) if place.startswith("postgresql") else open_sqlite(Path(place)))
    retrieval = Retrieval(SystemClock(), Steered(), max_bytes=10**10)
    try:
        for life in range(kills):
            fresh = await killed_life(place, str(life), draw.randint(1, 8 * WRITERS))
            acknowledged |= fresh
            async with store.begin_read() as tx:
                bank = await tx.banks.get_by_name(BANK)
            assert bank is not None
            episodes = await kept(store, bank.id)
            keys = [each.key for each in episodes]
            assert acknowledged <= set(keys), f"lost in life {life}: {acknowledged - set(keys)}"
            assert len(keys) == len(set(keys))
            assert all(each.key is not None and each.text == text_of(each.key) for each in episodes)
            in_flight = set(keys) - acknowledged
            assert len(in_flight) <= (life + 1) * WRITERS, "only what was under way may be there without a word"
            for key in draw.sample(sorted(fresh), min(3, len(fresh))):
                assert key in await found_by(store, retrieval, bank, key), "an index of before the kill keeps up"
    finally:
        await store.close()


@pytest.mark.spec("MEM-01", "MEM-02", "MEM-04")
async def test_after_a_kill_each_acknowledged_episode_is_there_once_and_is_found(place: str) -> None:
    await show_that_nothing_is_lost(place, kills=3)


@pytest.mark.slow
@pytest.mark.timeout(60 * 60)  # of two hundred starts of Python, which on a busy machine take ten seconds each
@pytest.mark.spec("MEM-01", "MEM-02", "MEM-04")
async def test_the_same_over_two_hundred_kills(place: str) -> None:
    await show_that_nothing_is_lost(place, kills=200)
