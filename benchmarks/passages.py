"""What a passage of a long text costs: to split, to index, to embed, to keep and to search."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from benchmarks.report import Report, number
from benchmarks.turns import Turns
from circadia.memory.embedding.bundled import BundledEmbedder
from circadia.memory.search.index import BankIndex
from circadia.memory.search.passages import IndexedText, index_text_nowait, passage_texts, split_text
from circadia.memory.search.vectors import stored_vector
from circadia.records.bank import Trust
from circadia.records.index_entry import IndexEntry, Layer

HEADING: Final = "1 May 2026 Ann: "
EMBEDDER: Final = "wordllama@0/256"
SHORT: Final = 600
"""Characters of a text that is one passage, which the others are compared with."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How much is measured."""

    lengths: Sequence[int] = (300, SHORT, 2_000, 20_000, 100_000)
    """Characters of a text."""
    characters: int = 1_000_000
    """Of all texts of one length."""
    searches: int = 200


QUICK: Final = Size(lengths=(SHORT, 2_000), characters=20_000, searches=5)


@dataclass(frozen=True, kw_only=True, slots=True)
class PassageCost:
    """What a passage costs, by the length of its text."""

    characters: int
    passages: float
    """Of a text."""
    split_us: float
    """Microseconds of processor time for a passage, as all of these."""
    index_us: float
    """The words, with their stems in each language, included."""
    embed_us: float
    row_bytes: float
    """Bytes beside the text: terms, places, vector."""
    memory_bytes: float
    """Bytes in a loaded index."""
    search_ms: float
    """Milliseconds of processor time for a search of all texts."""


async def run(folder: Path, size: Size) -> Report:
    costs = [await _measure(length, size) for length in size.lengths]
    return Report(
        name="passages", title="Long texts by passages: processor time and bytes of each",
        columns=(
            "characters of a text", "passages", "split µs", "split and words µs", "embed µs", "row bytes",
            "index bytes", "search ms",
        ),
        rows=[
            (
                f"{cost.characters:,}", number(cost.passages), number(cost.split_us), number(cost.index_us),
                number(cost.embed_us), number(cost.row_bytes), number(cost.memory_bytes), number(cost.search_ms),
            )
            for cost in costs
        ],
        goals=(),
        notes=(
            f"Each line has {size.characters / 1e6:g} million characters in all, so a search reads as many words.",
            "Times are processor time of a passage; a search reads words and the bundled embedder's vectors.",
            f"A text of up to {SHORT} characters has no passages: its row is as without them.",
        ),
        figures={"costs": [asdict(cost) for cost in costs]},
    )  # fmt: skip


async def _measure(length: int, size: Size) -> PassageCost:
    turns, embedder = Turns(seed=7), BundledEmbedder()
    await embedder.embed(["load"])
    index_text_nowait(HEADING, "load " * length, Trust.PERSON)
    long_text = " ".join(turn.text for turn in turns.make(size.characters // 60))
    texts = [long_text[at : at + length] for at in range(0, min(size.characters, len(long_text)) - length, length)]
    split_seconds = _cpu_seconds(lambda: [split_text(text, Trust.PERSON) for text in texts])
    indexed: list[IndexedText] = []
    index_seconds = _cpu_seconds(
        lambda: indexed.extend(index_text_nowait(HEADING, text, Trust.PERSON) for text in texts)
    )
    parts = [passage_texts(text, each.passages) for text, each in zip(texts, indexed, strict=True)]
    count = sum(map(len, parts))
    began = time.process_time()
    vectors = await embedder.embed([f"{HEADING}{part}" for text_parts in parts for part in text_parts])
    embed_seconds = time.process_time() - began
    stored = iter([stored_vector(vector) for vector in vectors])
    entries = [
        IndexEntry(
            number=at, at=0.0, conversation="c", speaker="Ann", kind="turn", trust="person", importance=None,
            weight=1.0, terms=each.terms, vector=b"".join(next(stored) for _ in text_parts), embedder=EMBEDDER,
            text=text, passages=each.passages,
        )
        for at, (text, each, text_parts) in enumerate(zip(texts, indexed, parts, strict=True), 1)
    ]  # fmt: skip
    index = BankIndex()
    empty_bytes = index.nbytes
    index.add(Layer.EPISODES, entries)
    asked = [turns.question(turn) for turn in turns.make(size.searches)]
    vectors = await embedder.embed(asked)
    questions = [
        replace(turns.asked(text), vectors={EMBEDDER: vector}) for text, vector in zip(asked, vectors, strict=True)
    ]
    search_seconds = _cpu_seconds(lambda: [index.find(question) for question in questions])
    rows = sum(len(entry.terms) + len(entry.passages or b"") + len(entry.vector or b"") for entry in entries)
    return PassageCost(
        characters=length, passages=count / len(texts), split_us=split_seconds / count * 1e6,
        index_us=index_seconds / count * 1e6, embed_us=embed_seconds / count * 1e6, row_bytes=rows / count,
        memory_bytes=(index.nbytes - empty_bytes) / count, search_ms=search_seconds / len(questions) * 1e3,
    )  # fmt: skip


def _cpu_seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began
