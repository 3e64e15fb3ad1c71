"""What a pass costs without its model: new episodes in banks of several sizes, with a scripted model and with none."""

import contextlib
import gc
import statistics
from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Final

from benchmarks.postgres import NoPostgres, postgres
from benchmarks.report import Goal, Report, number
from benchmarks.turns import Turn, Turns, store_turns
from circadia.clock import SystemClock, system_milliseconds
from circadia.evaluation.pass_harness import PassHarness, RecordingModel, open_pass_harness
from circadia.ids import EpisodeId, NoteId, RandomIds
from circadia.memory.banks import BankService, NewBank
from circadia.memory.search.terms import stored_terms
from circadia.records.bank import Bank, Trust
from circadia.records.note import Note, NoteKind
from circadia.server.app import tune_interpreter
from circadia.stores.base import Store
from circadia.stores.event_log import EventLog
from circadia.stores.postgres import open_postgres
from circadia.stores.signals.local import LocalSignals
from circadia.stores.sqlite import open_sqlite

LIMIT_SECONDS: Final = 1.0
GOAL_EPISODES: Final = 14_000
"""Of the bank for which the limit holds; of a smaller one it holds all the more."""
A_NOTE: Final = 10
"""Episodes for each note that a bank has before; a pass works with so many notes at most as `notebook.NOTES` says."""
A_SUMMARY: Final = 4
"""Notes for each summary that it has: without them the first pass would ask for those of all that is there."""
MODELS: Final = ("a scripted model", "no model")
"""Without a model it is measured in the bank of the goal only, which takes a bank of its own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How much is measured."""

    episodes: Sequence[int] = (1_000, 10_000, 14_000, 100_000)
    """In the bank, read by earlier passes; a bank of each."""
    new: int = 500
    """Episodes of a pass."""
    rounds: int = 3
    """Passes after the first, each over as many new ones."""
    both: bool = True
    """Whether PostgreSQL is measured too."""


QUICK: Final = Size(episodes=(60, 120), new=30, rounds=1, both=False)


@dataclass(kw_only=True, slots=True)
class PassOverheadResult:
    """The passes over one bank."""

    database: str
    model: str
    episodes: int
    first_seconds: float = 0.0
    """The first pass after a start, which loads the bank's index."""
    seconds: list[float] = field(default_factory=list[float])
    """The later ones."""
    cpu_seconds: list[float] = field(default_factory=list[float])
    calls: list[int] = field(default_factory=list[int])
    """Questions to the model."""
    changes: list[int] = field(default_factory=list[int])
    """Changes that were published."""


async def run(folder: Path, size: Size) -> Report:
    """Measure, in a folder of its own."""
    notes: list[str] = []
    found = await _measured("SQLite", await open_sqlite(folder / "circadia.db"), size)
    if size.both:
        try:
            async with postgres() as url:
                found += await _measured("PostgreSQL", await open_postgres(url), size)
        except NoPostgres as error:
            notes.append(f"PostgreSQL is left out: {error}")
    return _report(size, found, notes)


async def _measured(database: str, store: Store, size: Size) -> list[PassOverheadResult]:
    """Fill banks, run passes over them, and close the store."""
    found: list[PassOverheadResult] = []
    try:
        for episodes in size.episodes:
            turns = list(Turns(episodes).make(episodes + (size.rounds + 1) * size.new))
            for model in MODELS if episodes == _bound(size) else MODELS[:1]:
                bank = await _bank(store, f"{episodes}-{len(model)}", turns[:episodes])
                each = PassOverheadResult(database=database, model=model, episodes=episodes)
                mind = RecordingModel() if model == MODELS[0] else None
                with _settled():
                    async with open_pass_harness(store, LocalSignals(), mind) as running:
                        await _passes(running, bank, turns[episodes:], size, each)
                found.append(each)
        return found
    finally:
        await store.close()


@contextlib.contextmanager
def _settled() -> Generator[None]:
    """Have the collector of garbage work as in a server, and not go through what this benchmark has made."""
    before = gc.get_threshold()
    tune_interpreter()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)


async def _passes(running: PassHarness, bank: Bank, turns: Sequence[Turn], size: Size, to: PassOverheadResult) -> None:
    for at in range(size.rounds + 1):
        new = turns[at * size.new : (at + 1) * size.new]
        await store_turns(running.store, bank.id, new, first=to.episodes + at * size.new)
        before = len(running.model.prompts) if running.model else 0
        took = await running.run_pass(bank)
        if not at:
            to.first_seconds = took.seconds
            continue
        to.seconds.append(took.seconds)
        to.cpu_seconds.append(took.cpu_seconds)
        to.calls.append(len(running.model.prompts) - before if running.model else 0)
        to.changes.append(
            sum(count for kind, count in took.sleep_pass.counts.items() if kind not in ("refused", "staged"))
        )


async def _bank(store: Store, name: str, turns: Sequence[Turn]) -> Bank:
    """Return a bank whose episodes are all worked through, with notes of them and summaries of these."""
    clock = SystemClock()
    async with store.begin_write() as tx:
        bank = await BankService(clock, RandomIds(system_milliseconds), EventLog(clock, LocalSignals()), {}).create(
            tx, NewBank(name=name), by="benchmark"
        )
    await store_turns(store, bank.id, turns)
    async with store.begin_write() as tx:
        for at in range(0, len(turns), A_NOTE * A_SUMMARY):
            there = range(at, min(at + A_NOTE * A_SUMMARY, len(turns)))
            parts = [there[each : each + A_NOTE] for each in range(0, len(there), A_NOTE)]
            made = [_note(bank, NoteKind.CONSOLIDATION, part, turns[part[0]], clock.now()) for part in parts]
            await tx.notes.add_all([*made, _note(bank, NoteKind.SUMMARY, there, turns[at], clock.now())])
        state = await tx.sleep_states.get(bank.id)
        last = (await tx.sleep_states.fetch_backlog(bank.id, 0)).last
        await tx.sleep_states.put(replace(state, cursor=last))
    return bank


def _note(bank: Bank, kind: NoteKind, rests_on: Sequence[int], says: Turn, now: datetime) -> Note:
    return Note(
        id=NoteId(f"{bank.id}-{kind}-{rests_on[0]}"), number=0, bank_id=bank.id, kind=kind, text=says.text, at=says.at,
        trust=Trust.PERSON, terms=stored_terms(says.text), created_at=now,
        evidence=tuple(EpisodeId(f"{bank.id}-{each}") for each in rests_on),
    )  # fmt: skip


def _bound(size: Size) -> int:
    """Return the size of the bank for which the goal holds."""
    return max(each for each in size.episodes if each <= GOAL_EPISODES)


def _report(size: Size, found: Sequence[PassOverheadResult], notes: Sequence[str]) -> Report:
    return Report(
        name="pass_overhead",
        title=f"A pass over {size.new} new episodes without the time of its model, by episodes in the bank",
        columns=["database, episodes", "first s", "median s", "worst s", "CPU s", "questions", "changes"],
        rows=[_row(each) for each in found],
        goals=[
            Goal(
                what=f"{each.database}, {each.model}: a pass in a bank of {each.episodes:,}",
                limit=LIMIT_SECONDS,
                unit="s",
                found=statistics.median(each.seconds),
            )
            for each in found
            if each.episodes == _bound(size)
        ],
        notes=[
            "From its begin to its end, as the server's worker runs it: due, lease, index, operations, rules, "
            "publication, with the journal of its questions. The scripted model answers at once; its time is taken "
            "off. The collector of garbage is set as in a server.",
            f"The bank has a note for each {A_NOTE} of its episodes, and a summary for each {A_SUMMARY} notes. "
            "`first` is the first pass after a start, which "
            "loads the bank's index; the others are later passes, each over as many new episodes.",
            *notes,
        ],
        figures={f"{each.database}, {each.episodes}, {each.model}": asdict(each) for each in found},
    )


def _row(found: PassOverheadResult) -> list[str]:
    return [
        f"{found.database}, {found.episodes:,}, {found.model}",
        number(found.first_seconds),
        number(statistics.median(found.seconds)),
        number(max(found.seconds)),
        number(statistics.median(found.cpu_seconds)),
        number(statistics.median(found.calls)),
        number(statistics.median(found.changes)),
    ]
