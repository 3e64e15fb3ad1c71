"""Hand-written questions in seven languages that measure which of them a ready answer is served for."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
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
class _StoredQuestion:
    question: str
    stands_alone: bool
    same_words: tuple[str, ...]
    paraphrases: tuple[str, ...]
    phrasings: tuple[str, ...]
    near_misses: dict[NearMissKind, str]


_SUITE: Final = TypeAdapter(dict[str, tuple[_StoredQuestion, ...]])
_FILE: Final = Path(__file__).with_suffix(".json")


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
        for language, questions in _SUITE.validate_json(_FILE.read_bytes()).items()
        for stored in questions
    ]
