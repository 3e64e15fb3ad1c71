"""Hand-written questions in seven languages that measure which of them a ready answer is served for."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final, Literal

from pydantic import TypeAdapter

NearMissKind = Literal[
    "other_number",
    "other_name",
    "negated",
    "reversed",
    "other_time",
    "narrower",
    "wider",
    "follow_up",
    "other_attribute",
]
"""The difference between a near miss and its question.

`reversed` swaps who did it to whom, from and to, or doing and undoing; `follow_up` points back in another conversation.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class NearMiss:
    """A question that looks like another one and needs a different answer."""

    kind: NearMissKind
    question: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SuiteQuestion:
    """A question answered ahead of time, with questions that ask the same and questions that do not."""

    language: str
    """ISO 639-1 code."""
    question: str
    stands_alone: bool
    """Whether it can be understood outside its conversation."""
    same_words: Sequence[str]
    """The question with other white space, width forms, composition or closing mark."""
    paraphrases: Sequence[str]
    """Other wordings that an end user chooses."""
    phrasings: Sequence[str]
    """Other wordings that a good model returns with the answer."""
    near_misses: Sequence[NearMiss]


@dataclass(frozen=True, kw_only=True, slots=True)
class QuestionPair:
    """Two questions and whether they ask the same."""

    first: str
    second: str
    same: bool
    kind: str
    """The domain of a paraphrase, or the difference of a near miss."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _StoredQuestion:
    question: str
    stands_alone: bool
    same_words: tuple[str, ...]
    paraphrases: tuple[str, ...]
    phrasings: tuple[str, ...]
    near_misses: dict[NearMissKind, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class _StoredSuite:
    languages: dict[str, tuple[_StoredQuestion, ...]]
    english_paraphrases: tuple[tuple[str, str, str], ...]
    """Domain, one wording, another wording."""
    english_near_misses: tuple[tuple[str, str, str], ...]
    """Kind of difference, one question, the other question."""


_SUITE: Final = TypeAdapter(_StoredSuite)


def load_language_suite() -> Sequence[SuiteQuestion]:
    """Return the expected questions of all languages."""
    return [
        SuiteQuestion(
            language=language,
            question=stored.question,
            stands_alone=stored.stands_alone,
            same_words=stored.same_words,
            paraphrases=stored.paraphrases,
            phrasings=stored.phrasings,
            near_misses=tuple(NearMiss(kind=kind, question=text) for kind, text in stored.near_misses.items()),
        )
        for language, questions in _load_suite().languages.items()
        for stored in questions
    ]


def load_english_pairs() -> Sequence[QuestionPair]:
    """Return English pairs: clearly reworded questions, and questions that differ in one small thing that matters."""
    suite = _load_suite()
    return [
        QuestionPair(first=first, second=second, same=same, kind=kind)
        for same, pairs in ((True, suite.english_paraphrases), (False, suite.english_near_misses))
        for kind, first, second in pairs
    ]


@cache
def _load_suite() -> _StoredSuite:
    return _SUITE.validate_json(resources.files("circadia.testing").joinpath("language_suite.json").read_bytes())
