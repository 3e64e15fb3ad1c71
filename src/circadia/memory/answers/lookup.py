"""The lookup of a ready answer among those of one bank, agent and end user: exact, then by meaning, with guards."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import numpy as np

from circadia.ids import AnswerId
from circadia.memory.answers.deixis import stands_alone
from circadia.memory.answers.guards import YIELDING, Objection, objections
from circadia.memory.answers.likeness import Likeness
from circadia.memory.answers.meaning import WORDS, Meaning, Meanings, WordVectors, meaning, question_vector
from circadia.memory.answers.normal import Token, normal, tokens
from circadia.memory.answers.reading import Reading, read
from circadia.memory.answers.wording import compared
from circadia.memory.columns import Array, Column
from circadia.memory.vectors import Vectors, stored_vector
from circadia.records.answer import Expected

JUDGED: Final = 2
"""Phrasings, the nearest, that are compared word by word: most of a lookup's time; a third is rarely the one."""
EXPLAINED: Final = 8
"""Those that an explanation compares."""
NEAR: Final = 0.6
"""Cosine below which none is compared."""
OPEN: Final = 0.4
"""Confidence below which a check that may overrule guards would hardly ever say yes."""
COMPACTED: Final = 2
"""How many times more rows than live ones there may be before the dead ones are dropped."""
FEW: Final = 256
"""So many rows are never dropped."""


class Outcome(StrEnum):
    """What a lookup comes to."""

    HIT = "hit"
    """The answer may be served."""
    HINT = "hint"
    """The answer may be shown beside the question, marked as possibly of another one."""
    MISS = "miss"
    """Nothing is known."""


class Way(StrEnum):
    """How a phrasing was found."""

    EXACT = "exact"
    """It is the same, word for word, but for case, punctuation and courtesy."""
    MEANING = "meaning"
    """It is near in meaning."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bars:
    """What is enough, each from 0 to 1."""

    hit: float = 0.8
    """Confidence of the match for a hit; what it lets through `python -m benchmarks answers_pairs` tells."""
    hint: float = 0.6
    """Confidence of the match for a hint."""
    entry: float = 0.5
    """Confidence of the answer itself; below it is a hint at most."""
    check: float | None = None
    """Confidence of the match from which on a check is worth its time, if there is one that may overrule guards."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Match:
    """One phrasing that was compared with the question."""

    answer: AnswerId
    phrasing: str
    way: Way
    outcome: Outcome
    confidence: float
    """How sure it is that both ask for the same."""
    objections: Sequence[Objection] = ()
    """Why it is no hit, though it may be sure."""
    open: bool = False
    """Whether it is no hit, and a check may make it one."""

    @property
    def checkable(self) -> bool:
        """Whether a check, if there is one, decides whether it is a hit."""
        return self.way is Way.MEANING and (self.outcome is Outcome.HIT or self.open)


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What a lookup found."""

    outcome: Outcome
    match: Match | None = None
    """The best one; none if nothing is near."""
    others: Sequence[Match] = ()
    """What else was compared, the best first."""
    alone: bool = True
    """Whether the question can be understood without what was said before."""


@dataclass(kw_only=True, slots=True)
class _Entry:
    expected: Expected
    rows: list[int] = field(default_factory=list[int])


@dataclass(frozen=True, kw_only=True, slots=True)
class _Phrasing:
    entry: _Entry
    text: str
    reading: Reading
    """Made when it is taken in: it would be a third of comparing it with a question."""
    form: str


class ReadyAnswers:
    """The expected questions of one scope; nothing in it comes from, or goes to, another.

    Many may share `meanings`, which keeps what was taken apart within one bound.
    """

    def __init__(
        self, vectors: WordVectors, likeness: Likeness, bars: Bars | None = None, meanings: Meanings | None = None
    ) -> None:
        self._vectors = vectors
        self._meanings = meanings or Meanings(vectors)
        self._likeness = likeness
        self._bars = bars or Bars()
        self._entries: dict[AnswerId, _Entry] = {}
        self._clear()

    def __len__(self) -> int:
        return len(self._entries)

    def _clear(self) -> None:
        self._rows: list[_Phrasing | None] = []
        self._live = Column(np.bool_)
        self._gone = 0
        self._forms: defaultdict[str, list[int]] = defaultdict(list)
        self._conversations: defaultdict[str, set[int]] = defaultdict(set)
        self._near = Vectors(len(self._vectors("a")[0]))

    def add(self, expected: Iterable[Expected]) -> None:
        """Take in questions; one with an id that is known takes the place of that one."""
        given = {each.id: each for each in expected}
        self.remove(given)
        first, new = len(self._rows), list[bytes]()
        for each in given.values():
            entry = self._entries[each.id] = _Entry(expected=each)
            for text in dict.fromkeys(each.phrasings):
                words = tokens(text)
                if not words:
                    continue
                vector = question_vector(words, self._vectors)
                row = len(self._rows)
                form = normal(words)
                self._rows.append(_Phrasing(entry=entry, text=text, reading=read(words), form=form))
                entry.rows.append(row)
                self._forms[form].append(row)
                if each.conversation is not None:
                    self._conversations[each.conversation].add(row)
                new.append(stored_vector(vector))
        self._live.extend(np.ones(len(new), np.bool_))
        self._near.extend(range(first, first + len(new)), new)

    def remove(self, ids: Iterable[AnswerId]) -> None:
        """Forget questions; ids that are not known are passed over."""
        for each in ids:
            entry = self._entries.pop(each, None)
            for row in entry.rows if entry is not None else ():
                phrasing = self._rows[row]
                if phrasing is not None:
                    self._drop(row, phrasing)
        if len(self._rows) > FEW and len(self._rows) > COMPACTED * (len(self._rows) - self._gone):
            kept = [entry.expected for entry in self._entries.values()]
            self._entries.clear()
            self._clear()
            self.add(kept)

    def _drop(self, row: int, phrasing: _Phrasing) -> None:
        self._rows[row] = None
        self._live.values[row] = False
        self._gone += 1
        self._forms[phrasing.form].remove(row)
        if not self._forms[phrasing.form]:
            del self._forms[phrasing.form]
        conversation = phrasing.entry.expected.conversation
        if conversation is not None:
            self._conversations[conversation].discard(row)

    def find(
        self, question: str, conversation: str | None = None, *, without: Collection[AnswerId] = frozenset()
    ) -> Found:
        """Look for the answer of a question; `conversation` is the digest of what was said before it.

        The first hit ends the search: a phrasing that is the same, or else the nearest. What could only be a worse hint
        than one that is found is left out. Answers in `without` are none.
        """
        words = tokens(question)
        exact = self._exact(self._forms.get(normal(words), ()), conversation, without)
        if exact and exact[0].outcome is Outcome.HIT:
            return _told(exact[:1], alone=stands_alone(words))
        return self._by_meaning(words, exact, conversation, JUDGED, without, first=True)

    def explain(self, question: str, conversation: str | None = None) -> Found:
        """Look for it as `find` does, and compare all that is near, whether there is a hit or not."""
        words = tokens(question)
        exact = self._exact(self._forms.get(normal(words), ()), conversation)
        return self._by_meaning(words, exact, conversation, EXPLAINED, first=False)

    def _by_meaning(
        self, words: Sequence[Token], exact: Sequence[Match], conversation: str | None, most: int,
        without: Collection[AnswerId] = (), *, first: bool,
    ) -> Found:  # fmt: skip
        """Compare what is near, the nearest first, to the first hit or to the end."""
        found = list(exact)
        if not 0 < len(words) <= WORDS:
            return _told(found, alone=stands_alone(words))
        asked = meaning(words, self._vectors)
        left_out = {*without, *(match.answer for match in exact)}
        for phrasing, known in self._alike(asked, conversation, most, left_out):
            wording = compared(asked, known)
            against = objections(asked.reading, known.reading, wording)
            if first and against and not self._may_open(against) and any(map(_unopposed, found)):
                continue  # it could be a hint at most, and a worse one
            confidence = self._likeness.confidence(asked, known, wording)
            found.append(self._judged(phrasing, Way.MEANING, confidence, against))
            if first and found[-1].outcome is Outcome.HIT:
                break
        return _told(found, alone=asked.reading.alone)

    def _exact(
        self, rows: Sequence[int], conversation: str | None, without: Collection[AnswerId] = ()
    ) -> Sequence[Match]:
        found = [
            self._judged(phrasing, Way.EXACT, 1.0, ())
            for phrasing in map(self._rows.__getitem__, rows)
            if phrasing is not None and phrasing.entry.expected.id not in without and _fits(phrasing, conversation)
        ]
        return sorted(found, key=_rank)

    def _alike(
        self, asked: Meaning, conversation: str | None, most: int, without: Collection[AnswerId]
    ) -> Iterator[tuple[_Phrasing, Meaning]]:
        """Return the phrasings that are near, the nearest first."""
        allowed: Array | None = self._live.values
        if not asked.reading.alone:  # only what was expected in this very conversation can be meant
            allowed = np.zeros(len(self._rows), np.bool_)
            allowed[list(self._conversations.get(conversation or "", ()))] = True
        elif not self._gone and not without:
            allowed = None
        left_out = [row for each in without if each in self._entries for row in self._entries[each].rows]
        if allowed is not None and left_out:
            allowed = allowed.copy()
            allowed[left_out] = False
        rows, cosines = self._near.nearest(asked.vector, most, allowed)
        near: list[int] = rows[np.argsort(-cosines)][: int((cosines >= NEAR).sum())].tolist()
        for row in near:
            phrasing = self._rows[row]
            if phrasing is None or not _fits(phrasing, conversation):
                continue
            yield phrasing, self._meanings(phrasing.text, phrasing.reading)

    def _judged(self, phrasing: _Phrasing, way: Way, confidence: float, against: Sequence[Objection]) -> Match:
        entry = phrasing.entry.expected
        outcome = Outcome.MISS
        if confidence >= self._bars.hit and entry.confidence >= self._bars.entry and not against:
            outcome = Outcome.HIT
        elif confidence >= self._bars.hint:
            outcome = Outcome.HINT
        opens = way is Way.MEANING and outcome is not Outcome.HIT and entry.confidence >= self._bars.entry
        return Match(
            answer=entry.id, phrasing=phrasing.text, way=way, outcome=outcome, confidence=confidence,
            objections=against,
            open=opens and self._may_open(against) and confidence >= (self._bars.check or 0),
        )  # fmt: skip

    def _may_open(self, against: Sequence[Objection]) -> bool:
        """Return whether there is a check that may overrule all of these objections."""
        return self._bars.check is not None and all(each.guard in YIELDING for each in against)


def _told(matches: Sequence[Match], *, alone: bool) -> Found:
    if not matches:
        return Found(outcome=Outcome.MISS, alone=alone)
    best, *others = sorted(matches, key=_rank)
    return Found(outcome=best.outcome, match=best, others=others, alone=alone)


def _fits(phrasing: _Phrasing, conversation: str | None) -> bool:
    """Return whether it can be understood here: by itself, or by what was said before."""
    return phrasing.reading.alone or (conversation is not None and phrasing.entry.expected.conversation == conversation)


def _unopposed(match: Match) -> bool:
    return match.outcome is Outcome.HINT and not match.objections


def _rank(match: Match) -> tuple[int, bool, bool, float]:
    """Return by what the best comes first; what is objected to is hardly the same question, however alike it is."""
    return _ORDER[match.outcome], not match.open, bool(match.objections), -match.confidence


_ORDER: Final = {Outcome.HIT: 0, Outcome.HINT: 1, Outcome.MISS: 2}
