"""Fits the weights of a search's score, and measures what each part of it is worth.

`python -m benchmarks score --data TALKS` takes conversations in the format of LoCoMo, which are not part of this
repository, beside six made-up talks in six languages (`six_languages.json`), which count a fifth. The weights make the
evidence of each question most probable among its candidates (a softmax over their scores). Each talk is measured by
weights that were fitted on all others.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.report import Report, number
from circadia.evaluation.locomo import DialogueTurn, EvidenceQuestion, LongConversation, load_conversations
from circadia.memory.embedding.base import Embedder
from circadia.memory.embedding.bundled import BundledEmbedder
from circadia.memory.embedding.in_process import E5Embedder
from circadia.memory.search.columns import Array
from circadia.memory.search.index import WEIGHTS, BankIndex
from circadia.memory.search.question import Question
from circadia.memory.search.terms import question_words, stored_terms
from circadia.memory.search.vectors import stored_vector
from circadia.records.bank import Trust
from circadia.records.episode import EpisodeKind
from circadia.records.index_entry import IndexEntry, Layer

SIX: Final = Path(__file__).with_name("six_languages.json")
SHARE: Final = 0.2
"""Weight of the six languages beside the talks; they are short and few."""
STEPS: Final = 300
RATE: Final = 0.5
DECAY: Final = (0.9, 0.99)
"""Adam's, of the mean and of the square of the gradient (Kingma and Ba, 2015); a shorter memory than usual."""
SHRINK: Final = 1.0
"""Ridge penalty, as of one question with all weights 0."""
DEPTH: Final = 10
"""Hits in which the evidence is looked for; 5 in the six languages, whose talks are short."""
FEW: Final = 5
DAY: Final = datetime(2026, 3, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    data: Path | None = None
    """Conversations; without them the six languages alone are measured."""


QUICK: Final = Size()


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidates:
    """The rows that are scored for a question."""

    parts: Array
    """One row for each candidate, one column for each part, without the weights."""
    places: Array
    evidence: frozenset[int]


Talk = Sequence[Candidates]


async def run(_: Path, size: Size) -> Report:
    embedder = BundledEmbedder()
    talks = [] if size.data is None else await asyncio.to_thread(load_conversations, size.data)
    sets = [await find_candidates(embedder, [talk]) for talk in talks]
    six = await find_candidates(embedder, read_six_languages())
    exchanges = await measure_exchanges(embedder)
    standouts = [await measure_standout(each) for each in (embedder, E5Embedder())]
    fitted = await asyncio.to_thread(fit, _weighed([*sets, six]))
    names = list(WEIGHTS)
    in_use = np.array(list(WEIGHTS.values()))
    rows = [_row("all parts", in_use.sum(), fitted.sum(), _measure(sets, six, range(len(names))))]
    for place, name in enumerate(names):
        others = [each for each in range(len(names)) if each != place]
        rows.append(_row(f"without `{name}`", WEIGHTS[name], fitted[place], _measure(sets, six, others)))
    asked = sum(map(len, sets))
    return Report(
        name="score",
        title=f"Parts of the score: evidence found, in percent, of {asked} questions about {len(sets)} talks, "
        f"and of {len(six)} in six languages",
        columns=["score", "weight in use", "fitted", *(f"talk {at}, R@{DEPTH}" for at in range(1, len(sets) + 1)),
                 f"six languages, R@{FEW}"],
        rows=rows,
        goals=[],
        notes=[
            "Each talk is measured by weights that were fitted on the other talks and the six languages; the six "
            "languages by weights of all talks and of the other five.",
            f"Of {exchanges.follow_ups} follow-ups in seven languages, such as \"And who treated her?\", the question "
            f"alone finds {exchanges.alone} within {DEPTH} hits, with the exchange before it {exchanges.mixed}. Of "
            f"{exchanges.others} other questions behind an exchange on something else, {exchanges.others_alone} and "
            f"{exchanges.others_mixed} are found.",
            *standouts,
            "Weights are scaled so that `words`, `meaning` and `window` are 1 together.",
        ],
        figures={"fitted": dict(zip(names, fitted.tolist(), strict=True)), "in_use": dict(WEIGHTS)},
    )  # fmt: skip


def read_six_languages() -> Sequence[LongConversation]:
    """Return the talks with their questions."""
    talks: list[LongConversation] = []
    for raw in _read_talks():
        turns = [DialogueTurn(at=DAY, session=raw["language"], speaker=who, text=text) for who, text in raw["turns"]]
        questions = [
            EvidenceQuestion(question=question, evidence=frozenset(places), kind=raw["language"])
            for question, places in raw["questions"]
        ]
        talks.append(LongConversation(turns=turns, questions=questions, name=raw["language"]))
    return talks


def _read_talks() -> Sequence[Any]:
    talks: Sequence[Any] = json.loads(SIX.read_text("utf-8"))
    return talks


@dataclass(frozen=True, kw_only=True, slots=True)
class Exchanges:
    """How many questions behind an exchange find their evidence within `DEPTH` hits."""

    follow_ups: int
    alone: int
    mixed: int
    others: int
    others_alone: int
    others_mixed: int


async def measure_exchanges(embedder: Embedder) -> Exchanges:
    """Ask follow-ups behind what they follow, and the other questions behind the fourth next of their talk."""
    index, talks = BankIndex(), read_six_languages()
    places = await _fill(index, embedder, talks)
    found: dict[str, list[tuple[bool, bool]]] = {"follow_ups": [], "questions": []}
    for first, talk, raw in zip(places, talks, _read_talks(), strict=True):
        exchanges = [
            (question, f"{asked}\n{answer}", answers) for asked, answer, question, answers in raw["follow_ups"]
        ]
        others = raw["questions"]
        for at, (question, answers) in enumerate(others):
            asked, (told, *_) = others[(at + FEW - 2) % len(others)]
            exchanges.append((question, f"{asked}\n{talk.turns[int(told)].text}", answers))
        for at, (question, before, answers) in enumerate(exchanges):
            vector = (await embedder.embed([question], question=True))[0]
            terms, names = question_words(question)
            alone = Question(terms=terms, vectors={embedder.name: vector}, names=names, limit=DEPTH)
            terms, names = question_words(f"{before}\n{question}")
            mixed = replace(alone, exchange=terms, exchange_names=names)
            wanted = {first + place + 1 for place in answers}
            hits = [wanted & {row.number for row in index.find(each)} for each in (alone, mixed)]
            found["follow_ups" if at < len(raw["follow_ups"]) else "questions"].append((bool(hits[0]), bool(hits[1])))
    (alone, mixed), (others_alone, others_mixed) = (map(sum, zip(*each, strict=True)) for each in found.values())
    return Exchanges(
        follow_ups=len(found["follow_ups"]), alone=alone, mixed=mixed, others=len(found["questions"]),
        others_alone=others_alone, others_mixed=others_mixed,
    )  # fmt: skip


async def measure_standout(embedder: Embedder) -> str:
    """Return how many questions in six languages find their evidence with the part `standout` and without it."""
    talks = read_six_languages()
    together = await find_candidates(embedder, talks)
    alone = [each for talk in talks for each in await find_candidates(embedder, [talk])]
    weights, others = np.array(list(WEIGHTS.values())), [at for at, name in enumerate(WEIGHTS) if name != "standout"]

    def count(talk: Talk, columns: Sequence[int]) -> int:
        return sum(recall([each], weights[columns], columns, FEW) > 0 for each in talk)

    found = [[count(talk, columns) for talk in (together, alone)] for columns in (range(len(WEIGHTS)), others)]
    return (
        f"With {embedder.name}, of {len(together)} questions in six languages {found[0][0]} find their evidence within "
        f"{FEW} hits of one bank, and {found[0][1]} in a bank for each language; without `standout` {found[1][0]} and "
        f"{found[1][1]}."
    )


async def _fill(index: BankIndex, embedder: Embedder, talks: Sequence[LongConversation]) -> Sequence[int]:
    """Add the turns of talks, each with conversations of its own; return how many turns stand before each talk."""
    first, places = 0, list[int]()
    for at, talk in enumerate(talks):
        texts = [turn.indexed_text for turn in talk.turns]
        vectors = await embedder.embed(texts)
        index.add(Layer.EPISODES, [
            IndexEntry(
                number=first + place, at=turn.at.timestamp(), conversation=f"{at} {turn.session}", speaker=turn.speaker,
                kind=EpisodeKind.TURN.value, trust=Trust.PERSON.value, importance=None, weight=1.0,
                terms=stored_terms(text, turn.text), vector=stored_vector(vector), embedder=embedder.name, text=text,
            )
            for place, (turn, text, vector) in enumerate(zip(talk.turns, texts, vectors, strict=True), 1)
        ])  # fmt: skip
        places.append(first)
        first += len(talk.turns)
    return places


async def find_candidates(embedder: Embedder, talks: Sequence[LongConversation]) -> Talk:
    """Return what a bank with these talks, each with conversations of its own, compares for each of their questions."""
    index = BankIndex()
    places = await _fill(index, embedder, talks)
    found: list[Candidates] = []
    for begin, talk in zip(places, talks, strict=True):
        if not talk.questions:
            continue
        asked = await embedder.embed([each.question for each in talk.questions], question=True)
        for each, vector in zip(talk.questions, asked, strict=True):
            terms, names = question_words(each.question)
            question = Question(terms=terms, vectors={embedder.name: vector}, names=names, limit=len(index))
            rows = index.find(question)
            parts = [[row.parts.get(name, 0.0) / weight for name, weight in WEIGHTS.items()] for row in rows]
            found.append(
                Candidates(
                    parts=np.array(parts).reshape(len(rows), len(WEIGHTS)),
                    places=np.array([row.number - 1 for row in rows]),
                    evidence=frozenset(begin + place for place in each.evidence),
                )
            )
    return found


Weighed = Sequence[tuple[Talk, float]]


def _weighed(sets: Sequence[Talk], six: Talk | None = None) -> Weighed:
    """Return sets with the weight of each of their questions; the last is that of the six languages, or is given."""
    *talks, last = sets if six is None else [*sets, six]
    total = sum(map(len, talks))
    return [*((talk, 1.0) for talk in talks), (last, SHARE * total / max(len(last), 1) if talks else 1.0)]


def fit(sets: Weighed, columns: Sequence[int] = range(len(WEIGHTS))) -> Array:
    """Return the weights of these parts under which the evidence is most probable.

    Those of `words`, `meaning` and `window`, the first three, are 1 together.
    """
    chosen = list(columns)
    data = [
        (each.parts[:, chosen], np.isin(each.places, list(each.evidence)) / len(each.evidence), weight)
        for talk, weight in sets
        for each in talk
        if len(each.places)
    ]
    total = sum(weight for _, _, weight in data)
    weights, mean, square = np.ones(len(chosen)), np.zeros(len(chosen)), np.zeros(len(chosen))
    for step in range(1, STEPS + 1):
        gradient = SHRINK * weights
        for parts, truth, weight in data:
            scores = parts @ weights
            chances = np.exp(scores - scores.max())
            gradient = gradient + weight * (parts.T @ (chances / chances.sum() * truth.sum() - truth))
        gradient = gradient / total
        mean = DECAY[0] * mean + (1 - DECAY[0]) * gradient
        square = DECAY[1] * square + (1 - DECAY[1]) * gradient**2
        weights = weights - RATE * (mean / (1 - DECAY[0] ** step)) / (np.sqrt(square / (1 - DECAY[1] ** step)) + 1e-8)
    scale = sum(weights[chosen.index(place)] for place in range(3) if place in chosen)
    return weights / scale


def recall(talk: Talk, weights: Array, columns: Sequence[int], depth: int) -> float:
    """Return the mean share of the evidence among the first hits, in percent."""
    shares: list[float] = []
    for each in talk:
        order = np.argsort(-(each.parts[:, list(columns)] @ weights), kind="stable")
        hits: list[int] = each.places[order][:depth].tolist()
        shares.append(len(each.evidence.intersection(hits)) / len(each.evidence))
    return 100 * sum(shares) / max(len(shares), 1)


def _measure(sets: Sequence[Talk], six: Talk, columns: Sequence[int]) -> Sequence[float]:
    """Return the recall of each set by weights of the others."""
    found: list[float] = []
    for place, talk in enumerate(sets):
        others = [each for at, each in enumerate(sets) if at != place]
        found.append(recall(talk, fit(_weighed(others, six), columns), columns, DEPTH))
    size = len(six) // len(read_six_languages())
    shares: list[float] = []
    for at in range(0, len(six), size):
        others = [*six[:at], *six[at + size :]]
        shares.append(recall(six[at : at + size], fit(_weighed(sets, others), columns), columns, FEW))
    return [*found, sum(shares) / len(shares)]


def _row(name: str, in_use: float, fitted: float, found: Sequence[float]) -> Sequence[str]:
    return [name, f"{in_use:.2f}", f"{fitted:.2f}", *map(number, found)]
