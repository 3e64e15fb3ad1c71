"""Expected questions as a model writes them, and the checks that need no model (ANS-01).

A phrasing is one short line without an address, does not pose as a prompt, and names nothing outside its sources. A
model judges whether all phrasings ask the same and are self-contained (`verdicts.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel, Field

from circadia.answers.normalization import normalize
from circadia.sleeptime.grounding.source_check import Sources, describe_ungrounded_claims
from circadia.sleeptime.grounding.wording import find_addresses, refang, unfit_reason

_MAX_CHARACTERS: Final = 300
_MAX_CANDIDATES: Final = 10
"""Phrasings of a question that a model judges."""


class PredictedQuestion(BaseModel):
    phrasings: list[str] = Field(max_length=20)
    confidence: float = Field(ge=0, le=1)


class Predictions(BaseModel):
    questions: list[PredictedQuestion] = Field(max_length=100)


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpectedQuestion:
    phrasings: Sequence[str]
    """The first one is answered."""
    confidence: float
    """Likelihood that it is asked."""


def accept_questions(predicted: Sequence[PredictedQuestion], sources: Sources) -> Sequence[ExpectedQuestion]:
    """Return the questions with the phrasings that pass the checks, the likeliest first; each text once."""
    questions: list[ExpectedQuestion] = []
    taken_keys: set[str] = set()
    for question in predicted:
        phrasings: dict[str, str] = {}
        for text in map(str.strip, question.phrasings):
            key = normalize(text).text
            if key not in taken_keys and not reject_phrasing(text, sources):
                phrasings.setdefault(key, text)
        if phrasings:
            taken_keys.update(phrasings)
            questions.append(
                ExpectedQuestion(phrasings=list(phrasings.values())[:_MAX_CANDIDATES], confidence=question.confidence)
            )  # fmt: skip
    return sorted(questions, key=lambda question: -question.confidence)


def reject_phrasing(text: str, sources: Sources) -> str:
    """Return why a phrasing is rejected; empty if it is not."""
    if not text or len(text) > _MAX_CHARACTERS or not text.isprintable():
        return "it is no short line"
    if posing := unfit_reason(text):
        return posing
    if find_addresses(refang(text)):
        return "it has an address"
    return describe_ungrounded_claims(text, sources)
