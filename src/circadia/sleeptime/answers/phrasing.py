"""What a model expects to be asked, held to rules without a model: what does not pass is never answered (ANS-01).

A phrasing is one short line that stands on its own. It says nothing that poses as a prompt, orders nobody about, has no
link, and names nothing that is not in what the model was shown. All phrasings of a question pass the guards of the
lookup against its first, so that none of them is found for another question.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel, Field

from circadia.memory.answers.deixis import stands_alone
from circadia.memory.answers.guards import objections
from circadia.memory.answers.likeness import Likeness
from circadia.memory.answers.meaning import WordVectors, meaning
from circadia.memory.answers.normal import normal, tokens
from circadia.memory.answers.wording import compared
from circadia.sleeptime.grounding import Sources, ungrounded
from circadia.sleeptime.wording import unfit

LONGEST: Final = 300
"""Characters of a phrasing."""
PHRASINGS: Final = 5
"""Of a question, at most."""
ALIKE: Final = 0.1
"""Confidence below which two phrasings have so little in common that they are two questions."""
_LINK: Final = re.compile(
    r"(?i)\w://|\bwww\.|\]\(|(?<![\w-])(?<![\w-]\.)[\w-]+(?:\.[\w-]+)*\.[a-z]{2,10}/"
    r"|(?<![\w-])[\w-]+\.(?:com|org|net|io|ai|dev|example|ru|cn)\b|\w@\w"
)
_ORDER: Final = re.compile(
    r"(?i)\b(?:ignore|disregard|forget|override|bypass|obey|follow)\b[^?]{0,40}"
    r"\b(?:rules?|instructions?|prompts?|above|previous|everything|orders?)\b"
    r"|\b(?:system|developer)\s+(?:prompt|message|instructions?)\b|\bfrom\s+now\s+on\b|\byou\s+are\s+now\b"
    r"|\byou\s+must\b|\b(?:pretend|act)\s+(?:to|as|like|that)\b|\bpredict\b[^?]{0,40}\bquestions?\b"
    r"|\b(?:answer|reply|respond)\s+(?:only|always|exactly)\b"
)


class Predicted(BaseModel):
    """A question that is expected."""

    phrasings: list[str] = Field(max_length=20)
    confidence: float = Field(ge=0, le=1)


class Predictions(BaseModel):
    """What is expected next."""

    questions: list[Predicted] = Field(max_length=100)


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """An expected question that may be answered ahead."""

    phrasings: Sequence[str]
    """The first is the one that is answered."""
    confidence: float
    """How likely it is asked."""


def fit(predicted: Sequence[Predicted], known: Sources, vectors: WordVectors, likeness: Likeness) -> Sequence[Question]:
    """Return what passes of it, the likeliest first; `known` is what the model was shown."""
    found: list[Question] = []
    taken: set[str] = set()
    for each in predicted:
        texts = [text for text in map(str.strip, each.phrasings) if not wrong(text, known)]
        own = [text for text in _same(texts, vectors, likeness) if normal(tokens(text)) not in taken]
        if own:
            taken.update(normal(tokens(text)) for text in own)
            found.append(Question(phrasings=own, confidence=each.confidence))
    return sorted(found, key=lambda each: -each.confidence)


def wrong(text: str, known: Sources) -> str:
    """Return why a phrasing may not be expected, in words; empty if it may."""
    if not text or len(text) > LONGEST or not text.isprintable():
        return "it is no short line"
    posing = unfit(text)
    if posing:
        return posing
    if _LINK.search(text):
        return "it has a link"
    if _ORDER.search(text):
        return "it gives orders"
    if not stands_alone(tokens(text)):
        return "it does not stand on its own"
    return ungrounded(text, known)


def _same(texts: Sequence[str], vectors: WordVectors, likeness: Likeness) -> Sequence[str]:
    """Return the phrasings that ask for the same as the first, each wording once."""
    if not texts:
        return ()
    first = meaning(tokens(texts[0]), vectors)
    kept = {normal(tokens(texts[0])): texts[0]}
    for text in texts[1:]:
        words = tokens(text)
        other = meaning(words, vectors)
        wording = compared(first, other)
        against = objections(first.reading, other.reading, wording)
        if not against and likeness.confidence(first, other, wording) >= ALIKE:
            kept.setdefault(normal(words), text)
    return list(kept.values())[:PHRASINGS]
