"""Choose the lines of a context: the best first, each thing once (MEM-34)."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from circadia.memory.search.question import ScoredRow
from circadia.memory.search.terms import words
from circadia.records.episode import PASSAGE
from circadia.records.index_entry import TEXT, Excerpt, Layer

NO_SOURCES: Final[frozenset[int]] = frozenset()
SHORTEST: Final = 8
"""Tokens of the shortest line: a day, a speaker and a word."""
NEARLY: Final = 0.85
"""Share of common words from which two lines of a speaker with the same numbers say the same."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RenderedLine:
    """A rendered note or episode. Its text never changes; a deletion changes its bank's generation."""

    item: Excerpt
    text: str
    cost: int
    words: frozenset[str]
    marks: Sequence[str]
    """Its longest words: a line that nearly repeats it has one of them among its own."""
    sources: frozenset[int]
    """Numbers of a note's episodes."""


def rendered_line(item: Excerpt, text: str, cost: int, sources: frozenset[int]) -> RenderedLine:
    every = frozenset(words(item.text))
    marks = sorted(every, key=_longest_first)[: int(len(every) * (1 - NEARLY)) + 1]
    return RenderedLine(item=item, text=text, cost=cost, words=every, marks=marks, sources=sources)


def beginning(text: str) -> str:
    """Return the part of a text that a context uses; texts with the same beginning count as one."""
    return text[:TEXT]


class KnownTexts:
    """The texts that a conversation has already, some of them long ones of which passages may be found."""

    def __init__(self, texts: Collection[str]) -> None:
        self._beginnings = frozenset(map(beginning, texts))
        self._long = [text for text in texts if len(text) > PASSAGE]

    def __contains__(self, item: Excerpt) -> bool:
        if item.text in self._beginnings:
            return True
        return item.passage > 0 and any(text.startswith(item.text, item.start) for text in self._long)


class LineChooser:
    """Chooses the lines of a context: the best first, each thing once (MEM-34).

    A line that nearly repeats another, or is a source of a chosen note or a note on a chosen source, comes after all
    others; of two that nearly repeat each other the newer one stands first.
    """

    def __init__(self, budget: int, known: KnownTexts) -> None:
        self._budget = budget
        self._known = known
        self._first: list[tuple[RenderedLine, ScoredRow]] = []
        self._later: list[tuple[RenderedLine, ScoredRow]] = []
        self._cost = 0
        self._said: set[tuple[str | None, str]] = set()
        self._by_word: dict[str, list[int]] = {}
        """Places in `_first` by their marks."""
        self._told: set[int] = set()
        """Numbers of the episodes in `_first`."""
        self._sources: set[int] = set()
        """Numbers of the episodes of the notes there."""

    @property
    def is_full(self) -> bool:
        return self._cost > self._budget - SHORTEST

    def offer(self, scored: Sequence[ScoredRow], lines: Sequence[RenderedLine | None]) -> None:
        for line, row in zip(lines, scored, strict=True):
            if line is None or line.item in self._known or (line.item.speaker, line.item.text) in self._said:
                continue
            self._said.add((line.item.speaker, line.item.text))
            self._place(line, row)

    def fill(self) -> list[tuple[RenderedLine, ScoredRow]]:
        """Return the lines that fit, best first."""
        chosen: list[tuple[RenderedLine, ScoredRow]] = []
        budget = self._budget
        for line, row in (*self._first, *self._later):
            if line.cost <= budget:
                budget -= line.cost
                chosen.append((line, row))
        return chosen

    def _place(self, line: RenderedLine, row: ScoredRow) -> None:
        number, is_note = line.item.number, line.item.layer is Layer.NOTES
        if not line.sources.isdisjoint(self._told) if is_note else number in self._sources:
            self._later.append((line, row))
            return
        near = {at for mark in line.marks for at in self._by_word.get(mark, ())}
        at = next((at for at in near if _says_the_same(line, self._first[at][0])), None)
        if at is None:
            at = len(self._first)
            self._first.append((line, row))
            self._cost += line.cost
        elif line.item.at > self._first[at][0].item.at:
            self._cost += line.cost - self._first[at][0].cost
            self._later.append(self._first[at])
            self._first[at] = (line, row)
        else:
            self._later.append((line, row))
            return
        for mark in line.marks:
            self._by_word.setdefault(mark, []).append(at)
        if is_note:
            self._sources |= line.sources
        else:
            self._told.add(number)


def _longest_first(word: str) -> tuple[int, str]:
    return -len(word), word


def _says_the_same(line: RenderedLine, other: RenderedLine) -> bool:
    if line.item.speaker != other.item.speaker or len(line.words & other.words) < NEARLY * len(
        line.words | other.words
    ):
        return False
    return all(word.isalpha() for word in line.words ^ other.words)
