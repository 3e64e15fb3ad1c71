"""Whether a ready answer is void when it must be: lookups in one process among writes to its bank in another."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from benchmarks.interleaved import InterleavedOperations, Outcomes
from benchmarks.postgres import NoPostgres, postgres
from benchmarks.report import Goal, Report, number
from circadia.memory.embedding.bundled import BundledEmbedder
from circadia.stores.base import Store
from circadia.stores.postgres import open_postgres
from circadia.stores.sqlite import open_sqlite


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How much is measured."""

    operations: int = 100_000
    """Writes and lookups."""
    answers: int = 200
    """That are ready, or made anew."""
    both: bool = True
    """Whether PostgreSQL is measured too."""


QUICK: Final = Size(operations=400, answers=20, both=False)


async def run(folder: Path, size: Size) -> Report:
    """Measure, in a folder of its own."""
    embedder, notes = BundledEmbedder(), list[str]()
    told = {"SQLite": await _interleaved(lambda: open_sqlite(folder / "circadia.db"), embedder, size)}
    if size.both:
        try:
            async with postgres() as url:
                told["PostgreSQL"] = await _interleaved(lambda: open_postgres(url), embedder, size)
        except NoPostgres as error:
            notes.append(f"PostgreSQL is left out: {error}")
    return report(told, notes)


async def _interleaved(opened: Callable[[], Awaitable[Store]], embedder: BundledEmbedder, size: Size) -> Outcomes:
    """Write by one process' services and look up by another's, each with a store of its own on one database."""
    async with AsyncExitStack() as stack:
        stores = [await opened() for _ in range(2)]
        for store in stores:
            stack.push_async_callback(store.close)
        made = await InterleavedOperations.made(stores[0], stores[1], embedder, size.answers)
        return await made.run(size.operations)


def report(told: Mapping[str, Outcomes], notes: Sequence[str] = ()) -> Report:
    """Return what was found, by database."""
    return Report(
        name="answers_stale",
        title="Lookups of ready answers among writes to their bank by another process",
        columns=["", "operations", "lookups", "of void answers", "served", "of valid ones", "served"],
        rows=[
            [
                name, f"{each.operations:,}", f"{each.lookups:,}", f"{each.void:,}", f"{each.stale:,}",
                f"{each.expected:,}", f"{each.found:,}",
            ]
            for name, each in told.items()
        ],
        goals=[
            Goal(what=f"void answers that are served, {name}", limit=0, unit="answers", found=each.stale)
            for name, each in told.items()
        ],
        notes=[
            *(
                f"{name}: {each.writes:,} writes, of which {each.related:,} concerned some answer; {each.seconds:,.0f} "
                f"s. An answer lives through {number(each.lived)} writes before it is made anew."
                for name, each in told.items()
            ),
            "An answer is void once a write after it names its subject, is of what stood in its prompt, or of all "
            "prompts; that is kept beside the database, from the writes. A judge who is right reads the new turns once "
            "in some operations, and drops what they made wrong; until then a valid answer is a hint.",
            *notes,
        ],
        figures={"interleaved": {name: asdict(each) for name, each in told.items()}},
    )  # fmt: skip
