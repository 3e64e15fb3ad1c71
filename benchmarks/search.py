"""Searches of memory, embedding aside, by how many episodes a bank has, beside what the databases have for it."""

import sqlite3
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any, Final

import asyncpg
import numpy as np
import psutil

from benchmarks.holds import quantile
from benchmarks.postgres import NoPostgres, analyze, connect, postgres
from benchmarks.report import Goal, Report, number
from benchmarks.turns import DIMENSIONS, NoQuestions, Turn, Turns, store_turns
from circadia.clock import SystemClock, system_milliseconds
from circadia.ids import RandomIds
from circadia.memory.banks import BankService, NewBank
from circadia.memory.forgetting import forget
from circadia.memory.search.question import DEPTH, Question
from circadia.memory.search.retrieval import Retrieval
from circadia.memory.search.terms import STOP_WORDS, words
from circadia.memory.search.vectors import Vectors, stored_vector
from circadia.records.bank import Bank
from circadia.stores.base import Store
from circadia.stores.event_log import EventLog
from circadia.stores.postgres import open_postgres
from circadia.stores.signals.local import LocalSignals
from circadia.stores.sqlite import open_sqlite

GOALS_MS: Final[Mapping[int, float]] = {10_000: 5, 100_000: 25}
"""What the 95th centile of a search may be, by episodes in the bank; of a smaller one, what the first says."""
BANK: Final = "bench"
FORGOTTEN: Final = 20
"""Episodes that are forgotten, one after the other."""
SHOWN: Final = 10
"""Hits of a search."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How much is measured."""

    episodes: Sequence[int] = (1_000, 10_000, 100_000)
    """In a bank; a bank of each."""
    many: Sequence[tuple[int, int]] = ((100, 1_000), (2_000, 20))
    """Banks that are searched by turns, and episodes in each of them."""
    searches: int = 300
    """Of each kind."""


QUICK: Final = Size(episodes=(200, 400), many=((3, 50),), searches=10)


@dataclass(kw_only=True, slots=True)
class SearchBenchResult:
    """What was measured of one bank, or of some, in one database."""

    database: str
    what: str
    """How many episodes in how many banks."""
    episodes: int
    """In one bank."""
    banks: int = 1
    first_ms: float = 0.0
    """The first search after a start, which loads the bank."""
    kib: float = 0.0
    """Memory that an episode takes, from the growth of the process."""
    ms: list[float] = field(default_factory=list[float])
    """Whole searches, the texts of the hits with them."""
    forgotten_ms: list[float] = field(default_factory=list[float])
    """The same of a bank of which an episode was just forgotten."""
    words_ms: list[float] = field(default_factory=list[float])
    """The database's full text, ranked, on the same rows."""
    vectors_ms: list[float] = field(default_factory=list[float])
    """The database's vectors, exact, on the same rows."""


async def run(folder: Path, size: Size) -> Report:
    """Measure, in a folder of its own."""
    notes: list[str] = []
    store = await open_sqlite(folder / "circadia.db")
    found = await _measured("SQLite", store, size, folder, None)
    try:
        async with postgres() as url:
            found += await _measured("PostgreSQL", await open_postgres(url), size, folder, url)
    except NoPostgres as error:
        notes.append(f"PostgreSQL is left out: {error}")
    share = _sifted_share(min(10_000, max(size.episodes)))
    return _report(size, found, share, notes)


async def _measured(database: str, store: Store, size: Size, folder: Path, url: str | None) -> list[SearchBenchResult]:
    """Fill banks, search them, and close the store."""
    found: list[SearchBenchResult] = []
    try:
        for episodes in size.episodes:
            made = Turns(episodes)
            turns = list(made.make(episodes))
            bank = await filled(store, f"{BANK}-{episodes}", turns)
            if url is not None:
                await analyze(url)
            each = SearchBenchResult(database=database, what=f"{episodes:,}", episodes=episodes)
            asked = [made.question(turns[at * 7919 % episodes]) for at in range(size.searches)]
            await searched(store, [bank], [made.asked(question) for question in asked], each)
            if url is None:
                _full_text(folder / "words.db", turns, asked, each)
            else:
                await _in_postgres(url, turns, made, asked, each)
            found.append(each)
        for banks, episodes in size.many:
            found.append(await _many(database, store, banks, episodes, size.searches, url))
        return found
    finally:
        await store.close()


async def _many(
    database: str, store: Store, count: int, episodes: int, searches: int, url: str | None
) -> SearchBenchResult:
    """Search many banks by turns."""
    made = Turns(1)
    turns = list(made.make(episodes))
    banks = [await filled(store, f"many-{count}-{at}", turns) for at in range(count)]
    if url is not None:
        await analyze(url)
    asked = [made.question(turns[at * 7919 % episodes]) for at in range(max(searches, 2 * count))]
    each = SearchBenchResult(database=database, what=f"{count:,} banks of {episodes:,}", episodes=episodes, banks=count)
    await searched(store, banks, [made.asked(question) for question in asked], each)
    return each


async def filled(store: Store, name: str, turns: Sequence[Turn]) -> Bank:
    """Return a new bank that has these turns."""
    banks = BankService(SystemClock(), RandomIds(system_milliseconds), EventLog(SystemClock(), LocalSignals()), {})
    async with store.begin_write() as tx:
        bank = await banks.create(tx, NewBank(name=name), by="benchmark")
    await store_turns(store, bank.id, turns)
    return bank


async def searched(store: Store, banks: Sequence[Bank], questions: Sequence[Question], to: SearchBenchResult) -> None:
    """Search as a server does it that has just started."""
    retrieval = Retrieval(SystemClock(), NoQuestions(), max_bytes=10**11)
    process = psutil.Process()
    before = process.memory_info().rss
    first = [await _once(store, retrieval, bank, questions[0]) for bank in banks]
    to.kib = max(0, process.memory_info().rss - before) / 1024 / (to.episodes * len(banks))
    to.first_ms = statistics.median(first)
    for bank, question in zip(cycle(banks), questions, strict=False):
        to.ms.append(await _once(store, retrieval, bank, question))
    for at, (bank, question) in enumerate(zip(cycle(banks), questions[:FORGOTTEN], strict=False)):
        async with store.begin_write() as tx:
            present = await tx.banks.get_by_name(bank.name)
            assert present is not None
            await forget(tx, present, [f"{bank.id}-{at}"])
        to.forgotten_ms.append(await _once(store, retrieval, bank, question))


async def _once(store: Store, retrieval: Retrieval, bank: Bank, question: Question) -> float:
    """Return the milliseconds of a search with all of it: the bank, the rows that are new, the texts."""
    began = time.monotonic()
    async with store.begin_read() as tx:
        present = await tx.banks.get_by_name(bank.name)
        assert present is not None
        hits = await retrieval.find(tx, present, question)
    took = (time.monotonic() - began) * 1000
    assert len(hits) == SHOWN, f"{len(hits)} hits in {bank.name}"
    return took


def _full_text(path: Path, turns: Sequence[Turn], asked: Sequence[str], to: SearchBenchResult) -> None:
    """Search the same rows with FTS5 (stemmed, bm25) in this thread."""
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE VIRTUAL TABLE turns USING fts5(text, tokenize = 'porter unicode61')")
        database.executemany("INSERT INTO turns VALUES (?)", [(turn.text,) for turn in turns])
        database.commit()
        for question in asked:
            query = " OR ".join(f'"{word}"' for word in words(question) if word not in STOP_WORDS)
            began = time.monotonic()
            database.execute(
                "SELECT text FROM turns WHERE turns MATCH ? ORDER BY bm25(turns) LIMIT ?", (query, SHOWN)
            ).fetchall()
            to.words_ms.append((time.monotonic() - began) * 1000)


async def _in_postgres(
    url: str, turns: Sequence[Turn], made: Turns, asked: Sequence[str], to: SearchBenchResult
) -> None:
    """Search the same rows with tsvector (GIN, ts_rank_cd) and with pgvector (exact), on a connection of its own."""
    connection: Any = await connect(url)
    try:
        await connection.execute("DROP SCHEMA IF EXISTS bare CASCADE; CREATE SCHEMA bare")
        try:
            await connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            kind = f"vector({DIMENSIONS})"
        except asyncpg.PostgresError:
            kind = None  # without the extension its columns stay empty
        await connection.execute(
            "CREATE TABLE bare.turns (number INTEGER PRIMARY KEY, text TEXT, words TSVECTOR, meaning TEXT)"
        )
        rows = [(at, turn.text, _literal(turn.vector) if kind else "") for at, turn in enumerate(turns)]
        await connection.copy_records_to_table(
            "turns", schema_name="bare", records=rows, columns=["number", "text", "meaning"]
        )
        await connection.execute("UPDATE bare.turns SET words = to_tsvector('english', text)")
        await connection.execute("CREATE INDEX ON bare.turns USING gin (words)")
        if kind:
            await connection.execute(f"ALTER TABLE bare.turns ALTER meaning TYPE {kind} USING meaning::{kind}")
        await connection.execute("VACUUM ANALYZE bare.turns")
        by_words = await connection.prepare(
            "SELECT text FROM bare.turns, to_tsquery('english', $1) query WHERE words @@ query "
            f"ORDER BY ts_rank_cd(words, query) DESC LIMIT {SHOWN}"
        )
        by_meaning = kind and await connection.prepare(
            f"SELECT text FROM bare.turns ORDER BY meaning <=> $1::text::{kind} LIMIT {SHOWN}"
        )
        for question in asked:
            query = " | ".join(word for word in words(question) if word not in STOP_WORDS)
            to.words_ms.append(await _timed(by_words, query))
            if by_meaning:
                to.vectors_ms.append(await _timed(by_meaning, _literal(made.vector_of(question))))
    finally:
        await connection.close()


async def _timed(prepared: Any, value: str) -> float:
    began = time.monotonic()
    await prepared.fetch(value)
    return (time.monotonic() - began) * 1000


def _literal(vector: Any) -> str:
    return "[" + ",".join(f"{value:.5f}" for value in vector.tolist()) + "]"


def _sifted_share(count: int) -> float:
    """Return which share of the nearest by value is among the nearest by sign and value."""
    made = Turns(3)
    turns = list(made.make(count))
    values = np.array([turn.vector for turn in turns])
    held = Vectors(DIMENSIONS)
    held.extend(range(count), [stored_vector(turn.vector) for turn in turns])
    depth = min(DEPTH, count // 4)
    shares: list[float] = []
    for at in range(20):
        asked = made.vector_of(made.question(turns[at * 101 % count]))
        rows, _ = held.nearest(asked, depth, None)
        truly = np.argsort(-(values @ asked))[:depth]
        shares.append(len(np.intersect1d(rows, truly)) / depth)
    return statistics.mean(shares)


def _report(size: Size, found: Sequence[SearchBenchResult], share: float, notes: Sequence[str]) -> Report:
    return Report(
        name="search",
        title=f"A search of memory for {SHOWN} hits, embedding aside, one at a time, by episodes in a bank",
        columns=[
            "database, episodes", "p50 ms", "p95 ms", "after a forget p50 ms", "first ms", "KiB an episode",
            "full text p50 ms", "full text p95 ms", "vectors p50 ms", "vectors p95 ms",
        ],
        rows=[_row(each) for each in found],
        goals=[
            Goal(
                what=f"{each.database}: p95 at {each.what}",
                limit=GOALS_MS.get(each.episodes, min(GOALS_MS.values())),
                unit="ms",
                found=quantile(each.ms, 0.95),
            )
            for each in found
            if each.episodes in GOALS_MS or each.banks > 1 or size.episodes == QUICK.episodes
        ],
        notes=[
            "A search reads the bank's row, looks for new rows, blends words and vectors, and reads the texts of the "
            "hits. The index is in memory, the same for both databases; `first` is a search after a start, which "
            "loads the bank; with many banks the median of theirs. After a forget the search takes a row out of the "
            "index. A KiB counts what the process grew by then.",
            "Full text is FTS5 with the Porter stemmer and bm25() in this thread, without a trip to another, and "
            "tsvector with a GIN index and ts_rank_cd; vectors are pgvector without an index, which is exact as ours "
            "is. Both have the same rows, and find by one of the two only.",
            f"Of the {DEPTH} nearest vectors {share * 100:.1f} % are found, since signs are compared before values.",
            f"Turns have 8 to 40 words by Zipf's law, vectors {DIMENSIONS} dimensions; a question four rarer words.",
            *notes,
        ],
        figures={f"{each.database}, {each.what}": asdict(each) for each in found},
    )  # fmt: skip


def _row(found: SearchBenchResult) -> list[str]:
    def told(values: Sequence[float]) -> list[str]:
        return [number(statistics.median(values)), number(quantile(values, 0.95))] if values else ["–", "–"]

    return [
        f"{found.database}, {found.what}",
        *told(found.ms),
        number(statistics.median(found.forgotten_ms)),
        number(found.first_ms),
        number(found.kib),
        *told(found.words_ms),
        *told(found.vectors_ms),
    ]
