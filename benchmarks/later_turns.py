"""Which turns of labelled conversations touch a question, each taken as if it came after its answer.

A turn that a person named as evidence must; of the others, which are about the same two people, few may.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmarks.answers_fit import logistic
from benchmarks.recall import Conversation
from circadia.evaluation.conversations import Asked as Told
from circadia.memory import touching
from circadia.memory.answers.others import Others
from circadia.memory.answers.reading import named_besides, subjects
from circadia.memory.columns import Array
from circadia.memory.embedding.bundled import BundledEmbedder
from circadia.memory.index import Index
from circadia.memory.question import Question
from circadia.memory.terms import asked_terms, stored_terms
from circadia.memory.vectors import stored_vector
from circadia.records.index_entry import IndexEntry, Layer

FLOOR_AT: Final = 0.87
"""Share of the other turns of the fit part that weigh less than any bar."""
CEILING_AT: Final = 0.97
"""Share that weighs less than the highest bar."""
SURVIVAL: Final = 90
"""Percent of the others that a bar of another way lets be."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A question beside all turns of its conversation."""

    rows: touching.Rows
    evidence: Array
    """Whether each is evidence."""
    touches: Array
    """Whether each touches, as shipped."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shares:
    """What comes of a rule, in percent."""

    recall: float
    """Of the turns that are evidence, how many touch."""
    survival: float
    """Of the others, how many do not."""


def fits(conversation: Conversation) -> bool:
    """Return whether it is for fitting: by a hash of its turns, so that each run splits alike."""
    return zlib.crc32("\n".join(turn.text for turn in conversation.turns).encode()) % 2 == 0


async def asked(conversation: Conversation, embedder: BundledEmbedder) -> Sequence[Asked]:
    """Put each question beside each turn."""
    turns = conversation.turns
    vectors = await embedder.embed([turn.searched for turn in turns])
    index = Index()
    index.add(
        Layer.EPISODES,
        [
            IndexEntry(
                number=at, at=turn.at.timestamp(), session=turn.session, speaker=turn.speaker, kind="turn",
                trust="person", importance=None, weight=1.0, terms=stored_terms(turn.searched),
                vector=stored_vector(vector), embedder=embedder.name, text=turn.text,
            )
            for at, (turn, vector) in enumerate(zip(turns, vectors, strict=True), 1)
        ],
    )  # fmt: skip
    others = Others(await embedder.word_vectors())
    every, found = np.arange(len(turns)), list[Asked]()
    keys = [(Layer.EPISODES, at) for at in every.tolist()]
    for each in conversation.asked:
        (vector,) = await embedder.embed([each.question], question=True)
        question = Question(
            terms=asked_terms(each.question),
            subjects=subjects(each.question),
            answered=named_besides(each.answer, each.question),
            vectors={embedder.name: vector},
        )
        both = index.beside(np.concatenate([every, every]), question, every)
        touched = [
            later.number
            for later in touching.touching(both, len(turns), keys)
            if not (later.elsewhere and others.tells(turns[later.number].text, each.question))
            and (later.least is None or (later.akin and _akin(others, later, turns[later.number].text, each)))
        ]
        rows = touching.Rows(*(column[: len(turns)] for column in both))
        evidence = np.isin(every, list(each.evidence))
        found.append(Asked(rows=rows, evidence=evidence, touches=np.isin(every, touched)))
    return found


def _akin(others: Others, later: touching.Later, text: str, asked: Told) -> bool:
    if later.elsewhere:
        return others.akin(text, asked.question) or others.corrects(text, asked.question, asked.answer)
    return others.alters(text, asked.question, asked.answer)


def shipped(given: Sequence[Asked]) -> Shares:
    """Return what comes of the rule as it is shipped."""
    evidence = np.concatenate([each.evidence for each in given])
    touches = np.concatenate([each.touches for each in given])
    return Shares(recall=100 * float(touches[evidence].mean()), survival=100 * float((~touches[~evidence]).mean()))


def cosine_alone(given: Sequence[Asked], fitted: Sequence[Asked], survival: float) -> tuple[Shares, Shares]:
    """Return what comes of a bar of cosine that lets so many percent of the others be: of those given, and of these."""
    evidence = np.concatenate([each.evidence for each in given])
    near = np.concatenate([each.rows.near for each in given])
    other = np.concatenate([each.rows.near[~each.evidence] for each in fitted])
    bars = np.quantile(near[~evidence], survival / 100), np.quantile(other, survival / 100)
    one, two = (
        Shares(recall=100 * float((near[evidence] > bar).mean()), survival=100 * float((near[~evidence] <= bar).mean()))
        for bar in bars
    )
    return one, two


def fit(given: Sequence[Asked]) -> tuple[Sequence[float], float, float]:
    """Return weights that tell evidence from other turns, and the bounds of bars."""
    usual = [touching.usual_cosine(each.rows.near) for each in given]
    rows = np.vstack([touching.features(each.rows, at) for each, at in zip(given, usual, strict=True)])
    evidence = np.concatenate([each.evidence for each in given])
    scale = rows.std(axis=0) + 1e-9
    weights = logistic(rows / scale, evidence.astype(float))[:-1] / scale
    weighed = rows @ weights
    floor, ceiling = (float(np.quantile(weighed[~evidence], share)) for share in (FLOOR_AT, CEILING_AT))
    return [float(each) for each in weights], floor, ceiling
