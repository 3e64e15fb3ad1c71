"""How much of the evidence for a question a search finds, beside full text, vectors alone, and everything there is.

It takes conversations in the format of LoCoMo (https://github.com/snap-research/locomo), which are not part of this
repository: `python -m benchmarks recall --data PATH`.
"""

import asyncio
import json
import os
import sqlite3
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.postgres import NoPostgres, connect, postgres
from benchmarks.report import Goal, Report, number
from circadia.clock import SystemClock, system_milliseconds
from circadia.errors import ConfigError
from circadia.evaluation.locomo import LongConversation, parse_conversation
from circadia.ids import RandomIds
from circadia.llm import local_weights
from circadia.memory.banks import BankService, NewBank
from circadia.memory.context import estimate_tokens
from circadia.memory.embedding.base import Embedder
from circadia.memory.embedding.bundled import BundledEmbedder
from circadia.memory.embedding.in_process import LocalEmbedder
from circadia.memory.episodes import EpisodeService, NewEpisode
from circadia.memory.search.columns import Array
from circadia.memory.search.retrieval import Retrieval
from circadia.memory.search.terms import STOP_WORDS, words
from circadia.memory.search.vectors import stored_vector
from circadia.records.bank import Bank, BankPolicy, Trust
from circadia.settings.memory import LocalEmbedderSettings
from circadia.stores.base import Store
from circadia.stores.event_log import EventLog
from circadia.stores.signals.local import LocalSignals
from circadia.stores.sqlite import open_sqlite

DEPTHS: Final = (5, 10, 20)
"""Of the list of hits, best first."""
GOAL_POINTS: Final = 3
"""Of R@10, over stemmed BM25."""
OURS: Final = "Circadia"
BM25: Final = "full text, stemmed: BM25 (SQLite FTS5)"
RANKED: Final = "full text, stemmed: ts_rank_cd (PostgreSQL)"
VECTORS: Final = "vectors alone"
FUSED: Final = "BM25 and vectors by rank fusion, k = 60"
RANK_CONSTANT: Final = 60
"""What reciprocal rank fusion adds to each rank (Cormack, Clarke and Büttcher, SIGIR 2009), as most take it."""
FUSED_DEPTH: Final = 100
"""Of both lists that are fused."""
TIMED: Final = 200
"""Questions that are embedded one after the other."""
WORDS: Final = "Circadia without vectors"
LOCAL: Final = "Circadia, embedder `local`"
LOCAL_VECTORS: Final = "vectors alone, embedder `local`"
TINY: Final[Sequence[Mapping[str, Any]]] = (
    {
        "conversation": {
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Ann", "dia_id": "D1:1", "text": "What did you do at the weekend?"},
                {"speaker": "Bob", "dia_id": "D1:2", "text": "I painted the boat with my sister."},
                {"speaker": "Ann", "dia_id": "D1:3", "text": "Nice. My cat had kittens."},
            ],
        },
        "qa": [
            {"question": "What did Bob do at the weekend?", "evidence": ["D1:2"]},
            {"question": "Which animals does Ann have?", "evidence": ["D1:3"]},
        ],
    },
)
"""Shows only that it runs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How much is measured."""

    data: Path | None = None
    """The conversations; none takes a tiny made-up one."""
    chosen_on: bool = False
    """Whether settings were chosen on them, as whoever gives them says."""


QUICK: Final = Size()


Hits = Sequence[Sequence[int]]
"""For each question places of turns, best first."""


async def run(folder: Path, size: Size) -> Report:
    """Measure, in a folder of its own."""
    raw = TINY if size.data is None else json.loads(await asyncio.to_thread(size.data.read_text, "utf-8"))
    conversations = [parse_conversation(each) for each in raw]
    ways: list[tuple[Embedder, str, str]] = [(BundledEmbedder(), OURS, VECTORS)]
    notes: list[str] = []
    try:
        chosen = LocalEmbedderSettings.model_validate({"kind": "local"})
        ways.append((LocalEmbedder(chosen, local_weights.models_folder(os.environ)), LOCAL, LOCAL_VECTORS))
    except ConfigError as error:
        notes.append(f"Left out: {error.message}.")
    found: dict[str, list[Hits]] = {OURS: [], WORDS: [], BM25: []}
    for conversation in conversations:
        for embedder, ours, alone in ways:
            store = await open_sqlite(folder / f"{len(found[BM25])}-{alone}.db")
            try:
                vectors = await embedder.embed([turn.indexed_text for turn in conversation.turns])
                asked = await embedder.embed([each.question for each in conversation.questions], question=True)
                hits, without = await _ours(store, conversation, vectors, asked, embedder.name)
            finally:
                await store.close()
            found.setdefault(ours, []).append(hits)
            if ours == OURS:
                found[WORDS].append(without)
            found.setdefault(alone, []).append([np.argsort(-(vectors @ each))[:FUSED_DEPTH].tolist() for each in asked])
        found[BM25].append(_bm25(conversation))
        both = zip(found[BM25][-1], found[VECTORS][-1], strict=True)
        found.setdefault(FUSED, []).append([_fused(*each) for each in both])
    try:
        found[RANKED] = [await _ranked(conversation) for conversation in conversations]
    except NoPostgres as error:
        notes.append(f"PostgreSQL is left out: {error}")
    notes = [*[await _embedding(embedder, conversations) for embedder, _, _ in ways], *notes]
    return _report(size, conversations, found, notes)


async def _embedding(embedder: Embedder, conversations: Sequence[LongConversation]) -> str:
    """Return what an embedder takes."""
    texts = [turn.indexed_text for each in conversations for turn in each.turns]
    times: list[float] = []
    for text in texts[:TIMED]:
        began = time.monotonic()
        await embedder.embed([text])
        times.append((time.monotonic() - began) * 1000)
    began = time.monotonic()
    await embedder.embed(texts)
    rate = len(texts) / (time.monotonic() - began)
    return (
        f"{embedder.name} took {number(statistics.median(times))} ms for one text, and made vectors of {number(rate)} "
        "texts a second together."
    )


def _fused(*lists: Sequence[int]) -> Sequence[int]:
    """Return what stands in the lists, by the sum of 1 / (k + rank)."""
    scores: dict[int, float] = {}
    for each in lists:
        for rank, place in enumerate(each, 1):
            scores[place] = scores.get(place, 0) + 1 / (RANK_CONSTANT + rank)
    return sorted(scores, key=lambda place: -scores[place])


class QuestionVectors:
    """The questions' vectors, as the embedder made them before."""

    def __init__(self) -> None:
        self.known: dict[str, Mapping[str, Array]] = {}

    def vectors_nowait(self, question: str) -> Mapping[str, Array] | None:
        return None

    async def vectors(self, question: str) -> Mapping[str, Array]:
        return self.known.get(question, {})


async def _ours(
    store: Store, conversation: LongConversation, vectors: Array, asked: Array, embedder: str
) -> tuple[Hits, Hits]:
    """Return what Circadia finds, as it remembers and searches at its doors, with vectors and without."""
    clock, ids, questions = SystemClock(), RandomIds(system_milliseconds), QuestionVectors()
    events = EventLog(clock, LocalSignals())
    banks, episodes = BankService(clock, ids, events, {}), EpisodeService(clock, ids, events)
    retrieval = Retrieval(clock, questions, max_bytes=10**10)
    async with store.begin_write() as tx:
        bank = await banks.create(tx, NewBank(name="recall", policy=BankPolicy(duplicate_seconds=0)), by="benchmark")
        for turn in conversation.turns:
            new = NewEpisode(
                text=turn.text or "…", speaker=turn.speaker, trust=Trust.PERSON, at=turn.at, conversation=turn.session
            )
            await episodes.remember(tx, bank, new)
    async with store.begin_write() as tx:
        every = await tx.episodes.find_all(bank.id, limit=len(conversation.turns))
        numbers = [each.number for each in every]
        stored = [stored_vector(vector) for vector in vectors]
        await tx.episodes.save_vectors(dict(zip(numbers, stored, strict=True)), embedder)
    places = {each: place for place, each in enumerate(numbers)}
    without = await _found(store, retrieval, bank, conversation, places)
    for each, vector in zip(conversation.questions, asked, strict=True):
        questions.known[each.question] = {embedder: vector}
    return await _found(store, retrieval, bank, conversation, places), without


async def _found(
    store: Store, retrieval: Retrieval, bank: Bank, conversation: LongConversation, places: Mapping[int, int]
) -> Hits:
    found: list[list[int]] = []
    for each in conversation.questions:
        question = replace(await retrieval.prepare_question(each.question), limit=max(DEPTHS))
        async with store.begin_read() as tx:
            hits = await retrieval.find(tx, bank, question)
        found.append([places[hit.scored.number] for hit in hits])
    return found


def _telling(question: str) -> Sequence[str]:
    """Return the words that full text is asked for: ours, stop words left out, or it would be worse."""
    asked = list(dict.fromkeys(words(question)))
    return [word for word in asked if word not in STOP_WORDS] or asked


def _bm25(conversation: LongConversation) -> Hits:
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE VIRTUAL TABLE turns USING fts5(text, tokenize = 'porter unicode61')")
        rows = [(place, turn.indexed_text) for place, turn in enumerate(conversation.turns)]
        database.executemany("INSERT INTO turns (rowid, text) VALUES (?, ?)", rows)
        ask = "SELECT rowid FROM turns WHERE turns MATCH ? ORDER BY bm25(turns) LIMIT ?"
        return [
            [
                row[0]
                for row in database.execute(
                    ask, (" OR ".join(f'"{word}"' for word in _telling(each.question)), FUSED_DEPTH)
                )
            ]
            for each in conversation.questions
        ]


async def _ranked(conversation: LongConversation) -> Hits:
    """Return what PostgreSQL finds by its own stemmer and ranking. Raises NoPostgres."""
    async with postgres() as url:
        connection: Any = await connect(url)
        try:
            await connection.execute("CREATE TABLE turns (place INTEGER, words TSVECTOR)")
            await connection.executemany(
                "INSERT INTO turns VALUES ($1, to_tsvector('english', $2))",
                [(place, turn.indexed_text) for place, turn in enumerate(conversation.turns)],
            )
            ask = (
                "SELECT place FROM turns, to_tsquery('english', $1) query WHERE words @@ query "
                f"ORDER BY ts_rank_cd(words, query) DESC, place LIMIT {max(DEPTHS)}"
            )
            queries = [" | ".join(_telling(each.question)) for each in conversation.questions]
            return [[row[0] for row in await connection.fetch(ask, query)] for query in queries]
        finally:
            await connection.close()


def _recall(conversations: Sequence[LongConversation], found: Sequence[Hits], depth: int) -> float:
    """Return the mean share of the evidence among the first hits, of all questions, in percent."""
    shares = [
        len(each.evidence.intersection(hits[:depth])) / len(each.evidence)
        for conversation, of_it in zip(conversations, found, strict=True)
        for each, hits in zip(conversation.questions, of_it, strict=True)
    ]
    return 100 * sum(shares) / len(shares)


def _cost(conversations: Sequence[LongConversation], found: Sequence[Hits]) -> float:
    """Return how many tokens the first ten hits of a question have, in the mean."""
    costs = [
        sum(estimate_tokens(conversation.turns[place].indexed_text) for place in hits[:10])
        for conversation, of_it in zip(conversations, found, strict=True)
        for hits in of_it
    ]
    return sum(costs) / len(costs)


def _report(
    size: Size, conversations: Sequence[LongConversation], found: Mapping[str, Sequence[Hits]], notes: Sequence[str]
) -> Report:  # fmt: skip
    asked = sum(len(each.questions) for each in conversations)
    turns = sum(len(each.turns) for each in conversations)
    recalls = {way: [_recall(conversations, hits, depth) for depth in DEPTHS] for way, hits in found.items()}
    rows = [
        [way, *(number(value) for value in values), number(_cost(conversations, found[way]))]
        for way, values in recalls.items()
    ]
    whole = (
        sum(
            sum(estimate_tokens(turn.indexed_text) for turn in each.turns) * len(each.questions)
            for each in conversations
        )
        / asked
    )
    rows.append(["everything (full context)", *(number(100) for _ in DEPTHS), number(whole)])
    return Report(
        name="recall",
        title=f"Evidence found, in percent: {asked:,} questions about {turns:,} turns of {len(conversations)} talks",
        columns=["way", *(f"R@{depth}" for depth in DEPTHS), "tokens of the first 10"],
        rows=rows,
        goals=[
            Goal(
                what="R@10 over stemmed BM25",
                limit=GOAL_POINTS,
                unit="points",
                found=recalls[OURS][1] - recalls[BM25][1],
                bound="at least",
            )
        ]
        if size.data is not None
        else [],
        notes=[
            "Both kinds of full text are asked for any of the question's words but stop words, and all ways have the "
            "same texts: day, speaker and what was said. Vectors are those of the bundled embedder, WordLlama, or of "
            "all-MiniLM-L6-v2, which `embedder: {kind: local}` runs.",
            _which(size),
            *notes,
        ],
        figures={"recall": recalls, "chosen_on": size.chosen_on},
    )


def _which(size: Size) -> str:
    """Return which conversations they are."""
    if size.data is None:
        return "There was no data, so this is a made-up conversation of three turns: it shows only that it runs."
    if size.chosen_on:
        return (
            "The settings of the index were chosen on these very conversations: the figures show that they were chosen "
            "well, and are too good for others."
        )
    return (
        "The settings of the index were chosen on other conversations, if who gave these says so rightly: those on "
        "which they were chosen are to be given with `--chosen-on`."
    )
