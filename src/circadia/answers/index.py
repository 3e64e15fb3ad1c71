"""The expected questions of one scope, found by the same text or by their vectors (ANS-02)."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from circadia.answers.question_text import NormalizedText, find_conflict, normalize
from circadia.answers.services import Match
from circadia.ids import AnswerId
from circadia.memory.search.columns import Array, Column
from circadia.memory.search.vectors import TextVectors, Vectors, stored_vector
from circadia.records.answer import AnswerableQuestion, MatchKind

CANDIDATES: Final = 3
"""The nearest candidate is nearly always the right one (`python -m benchmarks answers_pairs`)."""
_NEIGHBOURS: Final = 8
"""Nearest vectors to choose candidates from: some conflict, and some belong to one answer."""
_REBUILD_RATIO: Final = 2
"""Rows per live row above which the index is rebuilt."""
_REBUILD_ROWS: Final = 256


@dataclass(kw_only=True, slots=True)
class _Entry:
    expected: AnswerableQuestion
    rows: list[int] = field(default_factory=list[int])


@dataclass(frozen=True, kw_only=True, slots=True)
class _Row:
    entry: _Entry
    text: str
    normalized: NormalizedText


class AnswerIndex:
    def __init__(self, vectors: TextVectors) -> None:
        self._vector_of = vectors
        self._entries: dict[AnswerId, _Entry] = {}
        self._clear()

    def __len__(self) -> int:
        return len(self._entries)

    def _clear(self) -> None:
        self._rows: list[_Row | None] = []
        self._open = Column(np.bool_)
        """By row: whether any conversation may find it."""
        self._removed = 0
        self._by_text: defaultdict[str, list[int]] = defaultdict(list)
        self._by_conversation: defaultdict[str, set[int]] = defaultdict(set)
        self._vectors = Vectors(len(self._vector_of("a")[0]))

    def add(self, expected: Iterable[AnswerableQuestion]) -> None:
        """Add questions; a known id is replaced."""
        questions = {question.id: question for question in expected}
        self.remove(questions)
        first, vectors = len(self._rows), list[bytes]()
        for question in questions.values():
            entry = self._entries[question.id] = _Entry(expected=question)
            for text in dict.fromkeys(question.phrasings):
                row = len(self._rows)
                normalized = normalize(text)
                self._rows.append(_Row(entry=entry, text=text, normalized=normalized))
                entry.rows.append(row)
                self._by_text[normalized.text].append(row)
                if question.conversation is not None:
                    self._by_conversation[question.conversation].add(row)
                vectors.append(stored_vector(self._vector_of(text)[0]))
        added = self._rows[first:]
        self._open.extend(np.array([row is not None and row.entry.expected.conversation is None for row in added]))
        self._vectors.extend(range(first, first + len(vectors)), vectors)

    def remove(self, ids: Iterable[AnswerId]) -> None:
        """Remove questions; unknown ids are ignored."""
        for answer_id in ids:
            entry = self._entries.pop(answer_id, None)
            for row in entry.rows if entry is not None else ():
                self._remove_row(row)
        live = len(self._rows) - self._removed
        if len(self._rows) > _REBUILD_ROWS and len(self._rows) > _REBUILD_RATIO * live:
            kept_questions = [entry.expected for entry in self._entries.values()]
            self._entries.clear()
            self._clear()
            self.add(kept_questions)

    def _remove_row(self, number: int) -> None:
        row = self._rows[number]
        if row is None:
            return
        self._rows[number] = None
        self._open.values[number] = False
        self._removed += 1
        self._by_text[row.normalized.text].remove(number)
        if not self._by_text[row.normalized.text]:
            del self._by_text[row.normalized.text]
        conversation = row.entry.expected.conversation
        if conversation is not None:
            self._by_conversation[conversation].discard(number)

    def find_exact(
        self, question: str, conversation: str | None = None, *, without: Collection[AnswerId] = frozenset()
    ) -> Match | None:
        """Return the expected question with the same text; of several, the likeliest."""
        normal_form = normalize(question)
        rows = [row for number in self._by_text.get(normal_form.text, ()) if (row := self._rows[number]) is not None]
        matching = [
            row
            for row in rows
            if row.normalized.equals(normal_form)
            and row.entry.expected.id not in without
            and row.entry.expected.conversation in (None, conversation)
        ]
        best = max(matching, key=lambda row: row.entry.expected.confidence, default=None)
        if best is None:
            return None
        return Match(answer=best.entry.expected.id, phrasing=best.text, kind=MatchKind.EXACT, similarity=1.0)

    def find_similar(
        self, question: str, conversation: str | None = None, *, min_similarity: float,
        without: Collection[AnswerId] = frozenset(), count: int = CANDIDATES,
    ) -> Sequence[Match]:  # fmt: skip
        """Return the nearest expected questions, one per answer, those without a conflict first."""
        vector, length = self._vector_of(question)
        if not length or not self._entries:
            return ()
        rows, cosines = self._vectors.nearest(vector, max(_NEIGHBOURS, count), self._allowed(conversation, without))
        best: dict[AnswerId, Match] = {}
        for at in np.argsort(-cosines, kind="stable"):
            row, similarity = self._rows[int(rows[at])], float(cosines[at])
            if row is None or similarity < min_similarity:
                continue
            conflict = find_conflict(question, row.text)
            answer = row.entry.expected.id
            if answer not in best or (best[answer].conflict and not conflict):
                best[answer] = Match(
                    answer=answer, phrasing=row.text, kind=MatchKind.SIMILAR, similarity=similarity,
                    shared_letters=_shared_trigrams(question, row.text), conflict=conflict,
                )  # fmt: skip
        return sorted(best.values(), key=lambda match: (bool(match.conflict), -match.similarity))[:count]

    def _allowed(self, conversation: str | None, without: Collection[AnswerId]) -> Array:
        allowed: Array = self._open.values
        own = self._by_conversation.get(conversation) if conversation is not None else None
        left_out = [row for answer_id in without if answer_id in self._entries for row in self._entries[answer_id].rows]
        if own or left_out:
            allowed = allowed.copy()
            allowed[list(own or ())] = True
            allowed[left_out] = False
        return allowed


def _shared_trigrams(first: str, second: str) -> float:
    one, two = ({text[at : at + 3] for at in range(len(text) - 2)} for text in map(_pad_words, (first, second)))
    return len(one & two) / max(len(one | two), 1)


def _pad_words(text: str) -> str:
    return f" {' '.join(text.casefold().split())} "
