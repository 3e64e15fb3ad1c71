"""A process that is killed again and again in a pass: no answer is paid for twice, and no input is skipped."""

import asyncio
import random
import signal
from collections import Counter
from pathlib import Path

import pytest

from circadia.clock import SystemClock
from circadia.ids import BankId, RandomIds
from circadia.memory.banks import BankService, NewBank
from circadia.memory.episodes import EpisodeService, NewEpisode
from circadia.records.bank import Bank, Trust
from circadia.stores.base import Store
from circadia.stores.event_log import EventLog
from circadia.stores.postgres import open_postgres
from circadia.stores.signals.local import LocalSignals
from circadia.stores.sqlite import open_sqlite
from tests.fixtures.program import Program
from tests.sleeptime.tier_stand import PairOutput

PROGRAM = "tests.durability.dreaming"


async def life(place: str, questions: int) -> tuple[list[str], bool]:
    """Let the program ask so many questions and kill it; return what it asked, and whether it came to its end."""
    process = await Program.start([PROGRAM], place)
    told: list[str] = []
    async with asyncio.timeout(120):
        while len(told) < questions and (line := await process.stdout.readline()):
            told.append(line.decode().strip())
            if told[-1].startswith("ended"):
                break
    process.send_signal(signal.SIGKILL)
    told += [line.decode().strip() for line in (await process.stdout.read()).splitlines(keepends=True)]
    await process.wait()
    asked = [each.removeprefix("asked ") for each in told if each.startswith("asked ")]
    return asked, any(each.startswith("ended") for each in told)


async def recorded(store: Store, bank: BankId) -> set[str]:
    """Return the answers that are on record."""
    found: set[str] = set()
    async with store.begin_read() as tx:
        for run in await tx.passes.find_all(bank_id=bank):
            calls = await tx.sleep_calls.find_by_pass(run.id)
            found |= {PairOutput.model_validate_json(each.answer).text for each in calls if each.answer is not None}
    return found


async def filled(store: Store, episodes_in_all: int) -> Bank:
    """Return a bank with so many episodes."""
    clock, ids = SystemClock(), RandomIds(lambda: 0)
    events = EventLog(clock, LocalSignals())
    episodes = EpisodeService(clock, ids, events)
    async with store.begin_write() as tx:
        bank = await BankService(clock, ids, events, {}).create(tx, NewBank(name="ann"), by="test")
        for at in range(episodes_in_all):
            await episodes.remember(tx, bank, NewEpisode(text=f"t{at}", speaker="ann", trust=Trust.PERSON))
    return bank


async def show_that_nothing_is_lost(place: str, seed: int, episodes: int = 21) -> int:
    """Kill passes over so many episodes at random until one has come to its end; return how often."""
    draw = random.Random(seed)
    store = await (open_postgres(place) if place.startswith("postgresql") else open_sqlite(Path(place)))
    try:
        bank = await filled(store, episodes)
        known: set[str] = set()
        lives, ended = 0, False
        while not ended:
            asked, ended = await life(place, draw.randint(1, 9))
            assert not known & set(asked), f"seed {seed}: paid for twice in life {lives}"
            known = await recorded(store, bank.id)
            lives += 1
        async with store.begin_read() as tx:
            notes = await tx.notes.find_all(bank.id, limit=1000)
        read = Counter(word for note in notes for word in note.text.split())
        assert read == Counter(f"t{at}" for at in range(episodes)), f"seed {seed}"
        return lives
    finally:
        await store.close()


@pytest.mark.spec("SLEEP-10", "SLEEP-11", "SLEEP-70")
async def test_after_kills_in_a_pass_no_answer_is_paid_for_twice_and_no_input_is_skipped(place: str) -> None:
    assert await show_that_nothing_is_lost(place, seed=1, episodes=8) > 1


@pytest.mark.slow
@pytest.mark.timeout(2 * 60 * 60)
@pytest.mark.spec("SLEEP-10", "SLEEP-11")
async def test_the_same_with_many_seeds(tmp_path: Path) -> None:
    for seed in range(100):
        await show_that_nothing_is_lost(str(tmp_path / f"{seed}.db"), seed)
