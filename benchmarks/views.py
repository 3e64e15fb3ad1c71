"""A search that a ready view answers beside the same search without it, warm and after a start, in one run."""

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final

from benchmarks.holds import quantile
from benchmarks.report import Goal, Report, number
from benchmarks.search import SHOWN, filled
from benchmarks.turns import EMBEDDER, Turns
from circadia.clock import SystemClock
from circadia.memory.search.columns import Array
from circadia.memory.search.index import Question
from circadia.memory.search.question_counter import OFTEN
from circadia.memory.search.retrieval import Retrieval, SearchHit
from circadia.records.bank import Bank
from circadia.sleeptime.operations.reindex import Reindex
from circadia.sleeptime.proposals.operation import PassContext
from circadia.stores.base import Store
from circadia.stores.event_log import EventLog
from circadia.stores.signals.local import LocalSignals
from circadia.stores.sqlite import open_sqlite

STARTS: Final = 5
"""How often the first search after a start is measured, of each kind."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How much is measured."""

    episodes: int = 10_000
    """In the bank."""
    questions: int = 32
    """That are kept ready."""
    rounds: int = 10
    """How often each is asked, of each kind."""


QUICK: Final = Size(episodes=300, questions=4, rounds=3)


class _Vectors:
    """The questions' vectors, which are there at once."""

    def __init__(self, made: Turns) -> None:
        self._made = made
        self._known: dict[str, Mapping[str, Array]] = {}

    def vectors_nowait(self, question: str) -> Mapping[str, Array] | None:
        return None

    async def vectors(self, question: str) -> Mapping[str, Array]:
        if question not in self._known:
            self._known[question] = {EMBEDDER: self._made.vector_of(question)}
        return self._known[question]

    def embedders(self) -> Sequence[str]:
        return [EMBEDDER]


@dataclass(kw_only=True, slots=True)
class _Times:
    """Milliseconds, with and without views."""

    ready: list[float] = field(default_factory=list[float])
    searched: list[float] = field(default_factory=list[float])


async def run(folder: Path, size: Size) -> Report:
    """Measure, in a folder of its own."""
    store = await open_sqlite(folder / "circadia.db")
    try:
        made = Turns(size.episodes)
        turns = list(made.make(size.episodes))
        bank = await filled(store, "bench", turns)
        questions = _Vectors(made)
        retrieval = Retrieval(SystemClock(), questions, max_bytes=10**11)
        asked = [made.question(turns[at * 7919 % size.episodes]) for at in range(size.questions)]
        ready = [replace(await retrieval.prepare_question(each), limit=SHOWN) for each in asked]
        for question in ready * OFTEN:
            await _once(store, retrieval, bank, question)
        events = EventLog(SystemClock(), LocalSignals())
        ground = PassContext(
            store=store, events=events, retrieval=retrieval, now=SystemClock().now(), go_on=_at_once
        )  # fmt: skip
        assert (await Reindex(views=size.questions).close(bank, ground))["views"] == len(ready)
        warm, first = _Times(), _Times()
        for _ in range(size.rounds):
            for question in ready:
                await _both(store, retrieval, retrieval, bank, question, warm)
        for question in (ready * STARTS)[:STARTS]:
            some = [Retrieval(SystemClock(), questions, max_bytes=10**11) for _ in range(2)]
            await _both(store, some[0], some[1], bank, question, first)
        return _report(size, warm, first)
    finally:
        await store.close()


async def _at_once() -> None:
    """Nobody waits."""


async def _both(store: Store, one: Retrieval, other: Retrieval, bank: Bank, question: Question, to: _Times) -> None:
    """Ask with views, then without."""
    took, found = await _once(store, one, bank, question)
    to.ready.append(took)
    took, same = await _once(store, other, bank, replace(question, text=""))
    to.searched.append(took)
    assert found == same, "a view has answered something else"


async def _once(
    store: Store, retrieval: Retrieval, bank: Bank, question: Question
) -> tuple[float, Sequence[SearchHit]]:
    """Return the milliseconds of a search with all of it, and what it found."""
    began = time.monotonic()
    async with store.begin_read() as tx:
        present = await tx.banks.get_by_name(bank.name)
        assert present is not None
        hits = await retrieval.find(tx, present, question)
    return (time.monotonic() - began) * 1000, hits


def _report(size: Size, warm: _Times, first: _Times) -> Report:
    kinds = {"warm": warm, "first after a start": first}
    return Report(
        name="views",
        title=f"A search for {SHOWN} hits among {size.episodes:,} episodes, answered by a ready view and not",
        columns=["search", "ready p50 ms", "ready p95 ms", "without p50 ms", "without p95 ms", "share %"],
        rows=[[what, *_told(each.ready), *_told(each.searched), number(_share(each))] for what, each in kinds.items()],
        goals=[
            Goal(what=f"{what}: a view's time beside the search's", limit=limit, unit="%", found=_share(kinds[what]))
            for what, limit in (("warm", 100), ("first after a start", 10))
        ],
        notes=[
            "Both read the bank's row and the texts of the hits; the question's vector is there in both. Without a "
            "view the first search loads the index, and each looks for new rows and ranks. Both find the same. The "
            "share is that of the medians.",
        ],
        figures={what: asdict(each) for what, each in kinds.items()},
    )  # fmt: skip


def _share(times: _Times) -> float:
    """Return percent."""
    return 100 * statistics.median(times.ready) / statistics.median(times.searched)


def _told(values: Sequence[float]) -> list[str]:
    return [number(statistics.median(values)), number(quantile(values, 0.95))]
