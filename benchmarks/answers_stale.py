"""Whether a ready answer is void when it must be, and only then: labelled turns, and a bank that is written to.

The conversations are not part of this repository: `python -m benchmarks answers_stale --data PATH` takes them in
LoCoMo's format. Those of the fit part made the weights of `circadia.memory.search.later_rows`; the figures are of the
others, where some are given.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from benchmarks.interleaved import InterleavedOperations, Outcomes
from benchmarks.later_turns import (
    KINDS,
    TURNS,
    QuestionFeatures,
    RuleShares,
    asked,
    changed,
    cosine_alone,
    fit,
    fits,
    left,
    shipped,
    suite,
)
from benchmarks.postgres import NoPostgres, postgres
from benchmarks.recall import TINY, parse_conversation
from benchmarks.report import Goal, Report, number
from circadia.memory.embedding.bundled import BundledEmbedder
from circadia.memory.search.columns import Array
from circadia.stores.base import Store
from circadia.stores.postgres import open_postgres
from circadia.stores.sqlite import open_sqlite

LEAST_SURVIVAL: Final = 90
LEAST_FOUND: Final = 90
"""Percent of the lookups among other writes that find what still stands."""
LEFT: Final = ("unrelated", "same person")


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How much is measured."""

    data: Path | None = None
    """The conversations; none takes a tiny made-up one."""
    operations: int = 100_000
    """Writes and lookups."""
    answers: int = 200
    """That are ready, or made anew."""
    both: bool = True
    """Whether PostgreSQL is measured too."""


QUICK: Final = Size(operations=400, answers=20, both=False)


async def run(folder: Path, size: Size) -> Report:
    """Measure, in a folder of its own."""
    embedder = BundledEmbedder()
    raw = TINY if size.data is None else json.loads(await asyncio.to_thread(size.data.read_text, "utf-8"))
    fitted, given = list[QuestionFeatures](), list[QuestionFeatures]()
    for conversation in map(parse_conversation, raw):
        found = await asked(conversation, embedder)
        (fitted if fits(conversation) else given).extend(found)
    notes = list[str]()
    told = {"SQLite": await _interleaved(lambda: open_sqlite(folder / "circadia.db"), embedder, size)}
    if size.both:
        try:
            async with postgres() as url:
                told["PostgreSQL"] = await _interleaved(lambda: open_postgres(url), embedder, size)
        except NoPostgres as error:
            notes.append(f"PostgreSQL is left out: {error}")
    return report(size, fitted, given, told, await suite(embedder), notes)


async def _interleaved(opened: Callable[[], Awaitable[Store]], embedder: BundledEmbedder, size: Size) -> Outcomes:
    """Write by one process' services and look up by another's, each with a store of its own on one database."""
    async with AsyncExitStack() as stack:
        stores = [await opened() for _ in range(2)]
        for store in stores:
            stack.push_async_callback(store.close)
        return await (await InterleavedOperations.made(stores[0], stores[1], embedder, size.answers)).run(
            size.operations
        )


def report(
    size: Size,
    fit_part: Sequence[QuestionFeatures],
    test_part: Sequence[QuestionFeatures],
    told: Mapping[str, Outcomes],
    suites: Mapping[str, Mapping[str, Array]],
    notes: Sequence[str] = (),
) -> Report:
    """Return what was found, by database; where all conversations are of one part, it stands for the other too."""
    fitted, given = fit_part or test_part, test_part or fit_part
    ours = shipped(given)
    same = cosine_alone(given, ours.survival)
    rows = [
        ["talks, Circadia", *map(_percent, (ours.recall, ours.survival, ours.same_person))],
        ["talks, with a judge", *map(_percent, (ours.recall_judged, ours.survival_judged, ours.same_person_judged))],
        ["talks, cosine alone", _percent(same.recall), _percent(same.survival), ""],
    ]
    for code, each in suites.items():
        for judged in (False, True):
            shares = changed(each, judged=judged), *(left(each, kind, judged=judged) for kind in LEFT)
            rows.append([f"suite, {code}{', with a judge' * judged}", *map(_percent, shares)])
    return Report(
        name="answers_stale",
        title=f"One more statement after each answer to {len(given):,} questions of talks, and in seven languages",
        columns=["", "change the answer: it is not served", "other statements: it is", "about the same person: it is"],
        rows=rows,
        goals=[
            *(_promises(ours) if size.data is not None and test_part else []),
            *(goal for name, each in told.items() for goal in _goals(name, each)),
        ],
        notes=[
            *(_done(name, each) for name, each in told.items()),
            "A lookup may find an answer if no write since it was made names its subject, is of what stood in its "
            "prompt, or of all prompts; that is kept beside the database, from the writes. All subjects are asked for "
            "in the same words, and a judge who is right settles doubts once in a hundred operations.",
            "The judge is one who is right, and is shown every statement above the bar for that. The other turns of "
            f"the talks are of the same two people. After {TURNS} other turns of a talk, and a judge, "
            f"{number(ours.alive)} % of the answers are served.",
            "What says another thing about the same person shares the name alone with the question, as a change in "
            "other words does; outside of English the bundled vectors do not tell them apart, and a judge must.",
            f"The fit part gives the weights {', '.join(f'{each:.1f}' for each in fit(fitted))}.",
            *notes,
            _parted(size, fit_part, test_part),
        ],
        figures={
            "talks": {"Circadia": asdict(ours), "cosine alone": asdict(same)},
            "suite": {code: {kind: each[kind].tolist() for kind in KINDS} for code, each in suites.items()},
            "interleaved": {name: asdict(each) for name, each in told.items()},
        },
    )


def _percent(share: float) -> str:
    return f"{number(share)} %"


def _promises(ours: RuleShares) -> Sequence[Goal]:
    """Return what ANS-04 promises of talks."""
    least = [
        ("evidence after which an answer is not served", ours.recall, 80),
        ("the same with a judge", ours.recall_judged, 88),
        ("other single turns that leave an answer", ours.survival, LEAST_SURVIVAL),
        ("those about the same person", ours.same_person, 60),
        ("the same with a judge", ours.same_person_judged, 90),
        (f"answers served after {TURNS} other turns and a judge", ours.alive, 50),
    ]
    return [Goal(what=what, limit=limit, unit="%", found=found, bound="at least") for what, found, limit in least]


def _goals(database: str, told: Outcomes) -> Sequence[Goal]:
    return [
        Goal(what=f"stale answers among interleaved operations, {database}", limit=0, unit="answers", found=told.stale),
        Goal(
            what=f"answers that survive unrelated writes, interleaved, {database}", limit=LEAST_FOUND, unit="%",
            found=told.survival, bound="at least",
        ),
    ]  # fmt: skip


def _done(database: str, told: Outcomes) -> str:
    return (
        f"{database}: {told.operations:,} interleaved operations took {told.seconds:,.0f} s: {told.lookups:,} lookups "
        f"in one process' services, {told.writes:,} writes in another's, of which {told.related:,} concerned some "
        f"answer. {told.expected:,} lookups were for an answer that what was written left alone, and {told.found:,} "
        f"found it; {told.void:,} were for one that was not, and {told.stale:,} found one. An answer lives through "
        f"{number(told.lived)} writes before it is made anew."
    )


def _parted(size: Size, fit_part: Sequence[QuestionFeatures], test_part: Sequence[QuestionFeatures]) -> str:
    """Return which turns they are."""
    if size.data is None:
        return "There was no data, so the turns are a few made-up ones: they show only that it runs."
    if not test_part:
        return (
            "By its hash each of the given conversations is of the fit part. So the turns are of that part, and the "
            "figures say nothing of others; give more conversations with `--data`."
        )
    told = "The turns are the test part of the given conversations; a hash of each decides."
    return told if fit_part else f"{told} All are of that part, so what is said of the fit part is of the same turns."
