"""A lookup of a ready answer as a call does it: found, read and confirmed in a transaction of a database."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from benchmarks.interleaved import SCOPE, Process
from circadia.ids import AnswerId
from circadia.memory.banks import NewBank
from circadia.memory.embedding.bundled import BundledEmbedder
from circadia.memory.episodes import NewEpisode
from circadia.records.answer import Answer, AnswerBasis, LookupOutcome
from circadia.records.bank import Bank, Trust
from circadia.records.index_entry import BankHeads
from circadia.stores.base import Store
from circadia.stores.sqlite import open_sqlite

AT_ONCE: Final = 500
LATER: Final = 20
"""Episodes about other things that came since."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ConfirmedLookups:
    """What lookups of one kind took."""

    ms: Sequence[float]
    hits: int


async def confirmed(
    folder: Path, embedder: BundledEmbedder, questions: Sequence[str], asked: Sequence[Sequence[str]]
) -> Sequence[ConfirmedLookups]:
    """Make these questions ready in a database, and ask each list of others."""
    folder.mkdir()
    store = await open_sqlite(folder / "circadia.db")
    try:
        process = Process(store, embedder)
        async with store.begin_write() as tx:
            bank = await process.banks.create(tx, NewBank(name="bench"), by="benchmark")
        await _fill(store, process, bank, questions)
        found: list[ConfirmedLookups] = []
        for some in asked:
            taken, hits = list[float](), 0
            for at, question in enumerate([some[0], *some]):
                async with store.begin_read() as tx:
                    present = await tx.banks.get(bank.id)
                    assert present is not None
                    if not at:  # the first loads all
                        await process.lookup.explain(tx, present, SCOPE, question)
                        continue
                    began = time.perf_counter()
                    ready = await process.lookup.find(tx, present, SCOPE, question)
                    taken.append((time.perf_counter() - began) * 1000)
                    hits += ready.outcome is LookupOutcome.HIT or bool(ready.candidates)
            found.append(ConfirmedLookups(ms=taken, hits=hits))
        return found
    finally:
        await store.close()


async def _fill(store: Store, process: Process, bank: Bank, questions: Sequence[str]) -> None:
    now = process.clock.now()
    answers = [
        Answer(
            id=AnswerId(f"ans_{at:08}"), bank_id=bank.id, scope=SCOPE, phrasings=(question,), confidence=1.0,
            text="An answer.", basis=AnswerBasis(heads=BankHeads(0, 0), generation=0), made_at=now,
            read_upto=LATER, expires_at=now + timedelta(days=1),
        )
        for at, question in enumerate(questions)
    ]  # fmt: skip
    for start in range(0, len(answers), AT_ONCE):
        async with store.begin_write() as tx:
            await tx.answers.put(answers[start : start + AT_ONCE])
    async with store.begin_write() as tx:
        for at in range(LATER):
            new = NewEpisode(text=f"The weather was nice on day {at}.", speaker="Eve", trust=Trust.PERSON)
            await process.episodes.remember(tx, bank, new)
