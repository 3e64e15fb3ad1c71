"""Whether an answer is still valid, from what it rests on and what its bank holds now (ANS-04).

An answer is valid while its question would still produce the same prompt: the same blocks, notes and episodes with the
same weights. A later row leaves it alone, puts it in doubt, or voids it. A doubtful answer is only a hint until a judge
has read the new rows; `Answer.settled` records the last rows that one has read.
"""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Final, NamedTuple

import numpy as np

from circadia.answers.question_text import normalize, only_asks
from circadia.answers.services import Concern, Validity
from circadia.caches import BoundedDict
from circadia.ids import AnswerId
from circadia.memory.context import Context, block_terms
from circadia.memory.embedding.base import MAX_CHARACTERS
from circadia.memory.episodes import searched_text
from circadia.memory.search.columns import Array
from circadia.memory.search.index import Question
from circadia.memory.search.later_rows import NEAR, VOID_WEIGHT, ChangeThresholds, LaterRow
from circadia.memory.search.retrieval import BankChanges, Retrieval
from circadia.memory.search.terms import question_stems, question_terms
from circadia.memory.search.vectors import TextVectors
from circadia.records.answer import Answer, AnswerBasis
from circadia.records.bank import Bank, Trust
from circadia.records.block import Block
from circadia.records.episode import EpisodeKind
from circadia.records.index_entry import BankHeads, Excerpt, Layer
from circadia.stores.base import Tx

CACHED_ANSWERS: Final = 20_000
"""Answers whose concerns, or whose reason to be void, are cached: a few hundred bytes each."""
QUESTIONS: Final = 2_000
"""Questions whose words and vectors are cached, 2 KB each."""
SENSE_LETTERS: Final = 300
MAX_CONCERNS: Final = 10
"""Later rows of an answer that a judge sees: those most likely to change it."""


class AnswerFreshness:
    def __init__(self, retrieval: Retrieval, vectors: TextVectors, embedder: str) -> None:
        """`embedder` names the row vectors that `vectors` can be compared with."""
        self._retrieval = retrieval
        self._vectors = vectors
        self._embedder = embedder
        self._questions: BoundedDict[str, Question] = BoundedDict(QUESTIONS)
        self._seen: BoundedDict[tuple[AnswerId, str], tuple[BankHeads, Sequence[Concern]]] = BoundedDict(CACHED_ANSWERS)
        """By answer and question: the last rows checked, and the concerns among them."""
        self._void: BoundedDict[AnswerId, str] = BoundedDict(CACHED_ANSWERS)
        """Reasons for void answers. They outlive the row that voided the answer, which may be gone by now."""

    def forget(self) -> None:
        """Drop what was found out about answers."""
        self._seen.clear()
        self._void.clear()

    async def check(self, tx: Tx, bank: Bank, answer: Answer, *, most: int | None) -> Validity:
        """Return whether an answer may be served, reading at most `most` texts of later rows in each layer.

        The result depends on rows of the database alone, so all processes agree at once.
        """
        if answer.id in self._void:
            return Validity(self._void[answer.id])
        rests = answer.rests
        if rests.generation != bank.generation:
            return Validity("rows were forgotten, or vectors were rebuilt")
        if not answer.phrasings:
            return Validity("its question is gone")
        question = self._question(answer.phrasings[0])
        weights = {Layer.EPISODES: rests.episodes, Layer.NOTES: rests.notes}
        seen_heads, known = self._seen.get((answer.id, answer.phrasings[0]), (rests.heads, ()))
        seen_heads = BankHeads(*map(max, seen_heads, answer.settled or seen_heads))
        rows = {
            layer: {*weights[layer], *(concern.number for concern in known if concern.layer is layer)}
            for layer in Layer
        }
        since = await self._retrieval.changes_since(tx, bank, rows, rests.heads, seen_heads, question)
        if since is None:
            return Validity("the transaction is older than something that was forgotten")
        void = _find_changed_weight(weights, since.weights) or await self._find_changed_block(
            tx, bank, rests, since.blocks, question
        )
        if void:
            self._void[answer.id] = void
            return Validity(void)
        known = [
            concern for concern in known if since.weights[concern.layer].get(concern.number)
        ]  # else it was retired since
        return await self._check_later_rows(tx, bank, answer, question, since, known, most)

    def _question(self, text: str) -> Question:
        known = self._questions.get(text)
        if known is None:
            known = self._questions[text] = prepare_question(text, self._vectors, self._embedder)
        return known

    async def _check_later_rows(
        self, tx: Tx, bank: Bank, answer: Answer, question: Question, since: BankChanges, known: Sequence[Concern],
        most: int | None,
    ) -> Validity:  # fmt: skip
        """Return the concerns among later rows, or why they could not all be read; cache the last row checked."""
        looked, concerns, lacks = dict(zip(Layer, since.heads, strict=True)), list(known), ""
        for layer in Layer:
            later = [new_row for new_row in since.later.rows if new_row.layer is layer]
            some = later[:most]
            excerpts = await self._excerpts(tx, bank, [new_row.number for new_row in some], layer)
            for later_row in some:
                row = excerpts.get(later_row.number)
                if row is None:
                    return Validity(f"the transaction is older than number {later_row.number} of the {layer}")
                concern = self._concern(row, later_row, since.later.thresholds, answer, question)
                if concern is not None and concern.weight > VOID_WEIGHT and row.trust != Trust.AGENT:
                    void = self._void[answer.id] = (
                        f"number {later_row.number} of the {layer}, which came later, changes it"
                    )
                    return Validity(void)
                concerns += [concern] if concern is not None else []
            if len(some) < len(later):
                looked[layer] = some[-1].number
                lacks = f"there are more than {most} later {layer} to look at first"
        settled = dict(zip(Layer, answer.settled or answer.rests.heads, strict=True))
        concerns = sorted({concern for concern in concerns if concern.number > settled[concern.layer]}, reverse=True)[
            :MAX_CONCERNS
        ]
        heads = BankHeads(looked[Layer.EPISODES], looked[Layer.NOTES])
        self._seen[answer.id, answer.phrasings[0]] = heads, concerns
        return Validity(lacks, concerns, heads)

    async def _excerpts(self, tx: Tx, bank: Bank, numbers: Sequence[int], layer: Layer) -> Mapping[int, Excerpt]:
        if not numbers:
            return {}
        return await (tx.episodes if layer is Layer.EPISODES else tx.notes).excerpts(bank.id, numbers)

    def _concern(
        self, row: Excerpt, later: LaterRow, thresholds: ChangeThresholds, answer: Answer, question: Question
    ) -> Concern | None:
        weight = later.weight
        if row.kind == EpisodeKind.READY:
            return None  # it was made of earlier rows, which are checked themselves
        question_vector = question.vectors.get(self._embedder)
        if not later.embedded and question_vector is not None:
            text = row.text if row.speaker is None else searched_text(row.at, row.speaker, row.text)
            vector, _ = self._vectors(text[:MAX_CHARACTERS])
            weight += NEAR * (question.sense * float(vector @ question_vector) - thresholds.usual)
        if weight <= thresholds.judged or states_nothing(row.text, answer):
            return None
        # An agent mostly repeats what it was told.
        threshold = VOID_WEIGHT if row.trust == Trust.AGENT else thresholds.doubted
        return Concern(weight > threshold, weight, later.layer, later.number)

    async def _find_changed_block(
        self, tx: Tx, bank: Bank, rests: AnswerBasis, blocks: Sequence[Block], question: Question
    ) -> str:
        present = {block.label: block for block in blocks}
        for label in rests.shown:
            if label not in present or present[label].version != rests.blocks.get(label):
                return f"block {label!r}, which stood in the prompt, was written or deleted since"
        for label, block in present.items():
            if block.version != rests.blocks.get(label):
                if block.pinned:
                    return f"block {label!r}, which is pinned, was written since"
                if not block_terms(block).isdisjoint(question.terms):
                    return f"block {label!r}, which shares a word with the question, was written since"
        for label in rests.blocks.keys() - present.keys():
            history = await tx.blocks.history(bank.id, label)
            if any(block.pinned and block.version == rests.blocks[label] for block in history):
                return f"block {label!r}, which was pinned, was deleted since"
        return ""


def states_nothing(text: str, answer: Answer) -> bool:
    """Return whether a text only asks, or repeats the answer or its question.

    Served questions and answers become memory; if those voided the answer, each use would be its last.
    """
    known = {_plain(wording) for wording in (answer.text, *answer.phrasings)}
    return only_asks(text) or _plain(text) in known


def _plain(text: str) -> str:
    return normalize(text).text.casefold().rstrip("!")


def prepare_question(text: str, vectors: TextVectors, embedder: str) -> Question:
    vector, length = vectors(text[:MAX_CHARACTERS])
    return Question(
        terms=question_terms(text), stems=question_stems(text), sense=_semantic_share(text, vector, vectors),
        vectors={embedder: vector} if length else {},
    )  # fmt: skip


def _semantic_share(text: str, vector: Array, vectors: TextVectors) -> float:
    """Return how much the vector of a text says beyond the sum of its letters' vectors.

    In a language that the model hardly knows it knows the letters only, and any two texts are near each other.
    """
    letters = [vectors(letter) for letter in text[:SENSE_LETTERS] if not letter.isspace()]
    spelt = sum((letter_vector * length for letter_vector, length in letters), np.zeros_like(vector))
    length = float(np.linalg.norm(spelt))
    return 1.0 - max(float(vector @ spelt) / length, 0.0) if length else 0.0


def _find_changed_weight(
    shown: Mapping[Layer, Mapping[int, float]], present: Mapping[Layer, Mapping[int, float]]
) -> str:
    for layer, weights in shown.items():
        for number, weight in weights.items():
            if present[layer].get(number, 0.0) != weight:
                return f"number {number} of the {layer}, which stood in the prompt, was demoted, restored or retired"
    return ""


class BankState(NamedTuple):
    """Everything that the validity of a bank's answers depends on; while it is equal, valid answers stay valid."""

    generation: int
    demotions: int
    heads: BankHeads
    writes: int
    """Versions of all blocks together."""


async def fetch_bank_state(tx: Tx, bank: Bank) -> BankState:
    now = await tx.banks.fetch_index_delta(bank.id, after={}, waiting={}, limit=1)
    heads = BankHeads(now.heads.get(Layer.EPISODES, 0), now.heads.get(Layer.NOTES, 0))
    return BankState(bank.generation, bank.demotions, heads, now.writes)


async def fetch_rests(tx: Tx, bank: Bank, blocks: Sequence[Block], context: Context) -> AnswerBasis:
    """Return what an answer rests on whose context was made of these blocks and rows."""
    numbers = {layer: [hit.scored.number for hit in context.hits if hit.scored.layer is layer] for layer in Layer}
    episodes = await tx.episodes.get_by_numbers(bank.id, numbers[Layer.EPISODES])
    notes = await tx.notes.get_by_numbers(bank.id, numbers[Layer.NOTES])
    return AnswerBasis(
        blocks={block.label: block.version for block in blocks},
        shown=[block.label for block in context.blocks],
        episodes={number: prod(demotion.weight for demotion in episode.stale) for number, episode in episodes.items()},
        notes={number: 1.0 for number, note in notes.items() if note.retired_at is None},
        heads=(await fetch_bank_state(tx, bank)).heads,
        generation=bank.generation,
    )
