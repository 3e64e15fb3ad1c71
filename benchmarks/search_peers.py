"""Searches of memory beside other memories' and a vector database's: the same texts, the same vectors, in one run."""

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks import search
from benchmarks.holds import quantile
from benchmarks.peer_driver import CHROMA_DATABASE, MEM0_MEMORY, Memory
from benchmarks.peers import NotInstallable
from benchmarks.report import Report, number
from benchmarks.turns import DIMENSIONS, EMBEDDER, Turn, Turns
from circadia.memory.embedding.bundled import BundledEmbedder
from circadia.memory.search.question import Question
from circadia.stores.sqlite import open_sqlite

MEMORIES: Final[Sequence[Memory]] = (CHROMA_DATABASE, MEM0_MEMORY)
OURS: Final = "Circadia"
NOWHERE: Final = "http://127.0.0.1:9/v1"
"""No model is asked."""
SECONDS: Final = 240.0
"""That another may take to store the episodes of one size and to search them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How much is measured."""

    episodes: Sequence[int] = (1_000, 10_000)
    """Stored by each; a bank of each. To store 100,000 takes the others more minutes than a benchmark may."""
    searches: int = 100
    peers: bool = True
    """Whether others are set up."""


QUICK: Final = Size(episodes=(200,), searches=10, peers=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """What is stored and looked for."""

    turns: Sequence[Turn]
    asked: Sequence[str]
    questions: Sequence[Question]
    """The same, as Circadia takes them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PeerSearchResult:
    """What the searches of one memory took."""

    name: str
    episodes: int
    ms: Sequence[float]
    nearest: float | None = None
    """Which share of the nearest vectors it found, in percent; none for one that looks for words too."""
    filled: float | None = None
    """Seconds in which it stored the episodes."""


async def run(folder: Path, size: Size) -> Report:
    """Measure, in a folder of its own."""
    notes: dict[str, str] = {}
    found: list[PeerSearchResult] = []
    store = await open_sqlite(folder / "circadia.db")
    try:
        for episodes in size.episodes:
            task = await _task(episodes, size.searches)
            bank = await search.filled(store, f"bench-{episodes}", task.turns)
            ours = search.SearchBenchResult(database="SQLite", what=f"{episodes:,}", episodes=episodes)
            await search.searched(store, [bank], task.questions, ours)
            found.append(PeerSearchResult(name=OURS, episodes=episodes, ms=ours.ms))
            for memory in MEMORIES if size.peers else ():
                if memory.name in notes:
                    continue
                try:
                    found.append(await _theirs(memory, folder / f"{memory.driver}-{episodes}", task))
                except NotInstallable as error:
                    notes[memory.name] = f"{memory.name} is left out from {episodes:,} episodes on: {error}"
                    print(notes[memory.name], flush=True)
    finally:
        await store.close()
    return _report(found, list(notes.values()))


async def _task(episodes: int, searches: int) -> Task:
    """Return made-up turns, with the vectors that Circadia would make of them."""
    embedder, made = BundledEmbedder(), Turns(episodes)
    turns = list(made.make(episodes))
    vectors = await embedder.embed([turn.text for turn in turns])
    asked = [made.question(turns[at * 7919 % episodes]) for at in range(searches)]
    return Task(
        turns=[replace(turn, vector=vector) for turn, vector in zip(turns, vectors, strict=True)],
        asked=asked,
        questions=[
            replace(made.asked(question), vectors={EMBEDDER: vector})
            for question, vector in zip(asked, await embedder.embed(asked, question=True), strict=True)
        ],
    )


async def _theirs(memory: Memory, folder: Path, task: Task) -> PeerSearchResult:
    """Let another store and search the same. Raises NotInstallable."""
    folder.mkdir()
    stored = np.array([turn.vector for turn in task.turns])
    asked = np.array([question.vectors[EMBEDDER] for question in task.questions])
    np.save(folder / "vectors.npy", stored)
    np.save(folder / "asked.npy", asked)
    given = {
        "turns": [turn.text for turn in task.turns], "questions": task.asked, "shown": search.SHOWN,
        "dimensions": DIMENSIONS, "base_url": NOWHERE,
    }  # fmt: skip
    told = await memory.run("search", folder, given, SECONDS)
    nearest = np.argsort(-(asked @ stored.T), axis=1)[:, : search.SHOWN]
    shares = [len(np.intersect1d(hits, best)) / search.SHOWN for hits, best in zip(told["hits"], nearest, strict=True)]
    return PeerSearchResult(
        name=memory.name, episodes=len(task.turns), ms=told["ms"], nearest=100 * statistics.mean(shares),
        filled=told["filled"],
    )  # fmt: skip


def _report(found: Sequence[PeerSearchResult], notes: Sequence[str]) -> Report:
    ours = {each.episodes: statistics.median(each.ms) for each in found if each.name == OURS}
    return Report(
        name="search_peers",
        title=f"A search for {search.SHOWN} hits, embedding aside, one at a time, by episodes, on the same vectors",
        columns=["episodes, memory", "p50 ms", "p95 ms", "times Circadia's p50", "nearest found, %"],
        rows=[
            [
                f"{each.episodes:,}, {each.name}",
                number(statistics.median(each.ms)),
                number(quantile(each.ms, 0.95)),
                number(statistics.median(each.ms) / ours[each.episodes]),
                "–" if each.nearest is None else number(each.nearest),
            ]
            for each in found
        ],
        goals=[],
        notes=[
            "All run in the caller's process and give the texts of the hits. Circadia, on SQLite, blends "
            "words, vectors and what stands around a turn; Chroma and mem0, as installed by their names alone, look "
            "for vectors only, so that they have less to do, and what they find is not compared here.",
            "The vectors are those of Circadia's default embedder, for made-up turns. The share of the exactly nearest "
            f"{search.SHOWN} that is among the hits shows that Chroma's index (HNSW, its default settings, cosine) is "
            "approximate; made-up turns lie close together, which is hard for it. mem0 leaves out what is below its "
            "threshold.",
            "mem0's embedder is replaced by one that has the vectors, and its vector store is filled directly: `add` "
            "would ask a model for each. The store is Qdrant in the process, its default, which looks through all "
            "points and calls itself fit for up to 20,000; a Qdrant server has an index, and is faster.",
            *notes,
        ],
        figures={f"{each.name}, {each.episodes}": asdict(each) for each in found},
    )  # fmt: skip
