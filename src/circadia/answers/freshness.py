"""Whether an answer still stands: a function of what it rests on and of what its bank holds now (ANS-04).

It stands as long as the same prompt would still be made for its question, as far as can be told without making it: the
blocks that stood in it, and those that would stand in it now; the notes and episodes that stood in it, with their
weights. A row that came later leaves it alone, puts it in doubt, or voids it. What is in doubt is a hint until a judge
has looked at the new rows; up to which rows one has is kept with the answer (`Answer.settled`).
"""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Final, NamedTuple

import numpy as np

from circadia.answers.index import TextVectors
from circadia.answers.normalization import normalize, only_asks
from circadia.bounded_dict import BoundedDict
from circadia.ids import AnswerId
from circadia.memory.context import Context, block_terms
from circadia.memory.embedding.base import MAX_CHARACTERS
from circadia.memory.episodes import searched_text
from circadia.memory.search.columns import Array
from circadia.memory.search.later_rows import NEAR, VOID_WEIGHT, ChangeThresholds, LaterRow
from circadia.memory.search.question import Question
from circadia.memory.search.retrieval import BankChanges, Retrieval
from circadia.memory.search.terms import question_stems, question_terms
from circadia.records.answer import Answer, AnswerBasis
from circadia.records.bank import Bank, Trust
from circadia.records.block import Block
from circadia.records.episode import EpisodeKind
from circadia.records.excerpt import Excerpt
from circadia.records.index_entry import Layer
from circadia.records.ready_view import BankHeads
from circadia.stores.base import Tx

CACHED_ANSWERS: Final = 20_000
"""Answers whose later rows are kept, and as many that are void, a few hundred bytes each."""
QUESTIONS: Final = 2_000
"""Questions whose words and vectors are kept, 2 KB each."""
SENSE_LETTERS: Final = 300
"""Letters of a question that tell how much its vector says."""
MAX_CONCERNS: Final = 10
"""Later rows of an answer that a judge is shown, those that most likely change it."""


class Concern(NamedTuple):
    """A later row that may change an answer, as far as can be told without a judge."""

    doubtful: bool
    """Whether it puts the answer in doubt; else the answer is served until a judge has looked."""
    weight: float
    """How likely it does; see `memory/search/later_rows.py`."""
    layer: Layer
    number: int


class Validity(NamedTuple):
    """Whether an answer may be served, shown as a hint, or neither."""

    void: str = ""
    """Why it may not even be a hint, in words; empty if it may."""
    concerns: Sequence[Concern] = ()
    """Later rows that a judge may be asked about: those that put it in doubt first, and the most likely first."""
    heads: BankHeads = BankHeads(0, 0)
    """The greatest numbers that were looked at."""

    @property
    def doubt(self) -> str:
        """Return why it may only be shown as a hint, in words; empty if it may be served."""
        found = next((each for each in self.concerns if each.doubtful), None)
        return "" if found is None else f"number {found.number} of the {found.layer}, which came later, may change it"

    @property
    def why_not(self) -> str:
        """Return why it may not be served, in words; empty if it may."""
        return self.void or self.doubt


class AnswerFreshness:
    """Tells whether answers are still valid."""

    def __init__(self, retrieval: Retrieval, vectors: TextVectors, embedder: str) -> None:
        """`embedder` is the name under which rows have vectors of the same kind as those of words."""
        self._retrieval = retrieval
        self._vectors = vectors
        self._embedder = embedder
        self._questions: BoundedDict[str, Question] = BoundedDict(QUESTIONS)
        self._seen: BoundedDict[tuple[AnswerId, str], tuple[BankHeads, Sequence[Concern]]] = BoundedDict(CACHED_ANSWERS)
        """By answer and question: up to which rows was looked, and which of these are concerns."""
        self._void: BoundedDict[AnswerId, str] = BoundedDict(CACHED_ANSWERS)
        """Why answers are void: the row that voided one may be gone by now, and the world is not what it was."""

    async def check(self, tx: Tx, bank: Bank, answer: Answer, *, most: int | None) -> Validity:
        """Return whether it may be served. At most so many texts of later rows are read in each layer.

        It depends on the rows of the database alone, so that every process says the same at once.
        """
        if answer.id in self._void:
            return Validity(self._void[answer.id])
        rests = answer.rests
        if rests.generation != bank.generation:
            return Validity("something was forgotten since, or vectors were made anew")
        if not answer.phrasings:
            return Validity("its question is gone")
        question = self._question(answer.phrasings[0])
        shown = {Layer.EPISODES: rests.episodes, Layer.NOTES: rests.notes}
        seen, known = self._seen.get((answer.id, answer.phrasings[0]), (rests.heads, ()))
        seen = BankHeads(*map(max, seen, answer.settled or seen))
        rows = {layer: {*shown[layer], *(each.number for each in known if each.layer is layer)} for layer in Layer}
        since = await self._retrieval.changes_since(tx, bank, rows, rests.heads, seen, question)
        if since is None:
            return Validity("the transaction is older than something that was forgotten")
        void = _find_changed_weight(shown, since.weights) or await self._find_changed_block(
            tx, bank, rests, since.blocks, question
        )
        if void:
            self._void[answer.id] = void
            return Validity(void)
        known = [each for each in known if since.weights[each.layer].get(each.number)]  # else it was retired since
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
        """Return which later rows may change the answer, or what lacks to tell; keep in mind up to which was looked."""
        looked, found, lacks = dict(zip(Layer, since.heads, strict=True)), list(known), ""
        for layer in Layer:
            later = [each for each in since.later.rows if each.layer is layer]
            some = later[:most]
            excerpts = await self._excerpts(tx, bank, [each.number for each in some], layer)
            for each in some:
                row = excerpts.get(each.number)
                if row is None:
                    return Validity(f"the transaction is older than number {each.number} of the {layer}")
                concern = self._concern(row, each, since.later.bars, answer, question)
                if concern is not None and concern.weight > VOID_WEIGHT and row.trust != Trust.AGENT:
                    void = self._void[answer.id] = f"number {each.number} of the {layer}, which came later, changes it"
                    return Validity(void)
                found += [concern] if concern is not None else []
            if len(some) < len(later):
                looked[layer] = some[-1].number
                lacks = f"there are more than {most} later {layer} to look at first"
        settled = dict(zip(Layer, answer.settled or answer.rests.heads, strict=True))
        found = sorted({each for each in found if each.number > settled[each.layer]}, reverse=True)[:MAX_CONCERNS]
        heads = BankHeads(looked[Layer.EPISODES], looked[Layer.NOTES])
        self._seen[answer.id, answer.phrasings[0]] = heads, found
        return Validity(lacks, found, heads)

    async def _excerpts(self, tx: Tx, bank: Bank, numbers: Sequence[int], layer: Layer) -> Mapping[int, Excerpt]:
        if not numbers:
            return {}
        return await (tx.episodes if layer is Layer.EPISODES else tx.notes).excerpts(bank.id, numbers)

    def _concern(
        self, row: Excerpt, later: LaterRow, bars: ChangeThresholds, answer: Answer, question: Question
    ) -> Concern | None:
        weight = later.weight
        if row.kind == EpisodeKind.READY:
            return None  # it was made of what the bank held before, and each row of that is looked at by itself
        asked = question.vectors.get(self._embedder)
        if not later.embedded and asked is not None:
            text = row.text if row.speaker is None else searched_text(row.at, row.speaker, row.text)
            vector, _ = self._vectors(text[:MAX_CHARACTERS])
            weight += NEAR * (question.sense * float(vector @ asked) - bars.usual)
        if weight <= bars.judged or states_nothing(row.text, answer):
            return None
        bar = (
            VOID_WEIGHT if row.trust == Trust.AGENT else bars.doubted
        )  # an agent says what it was told, for the most part
        return Concern(weight > bar, weight, later.layer, later.number)

    async def _find_changed_block(
        self, tx: Tx, bank: Bank, rests: AnswerBasis, blocks: Sequence[Block], question: Question
    ) -> str:
        """Return which block is another in the prompt by now."""
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
            if any(each.pinned and each.version == rests.blocks[label] for each in history):
                return f"block {label!r}, which was pinned, was deleted since"
        return ""


def states_nothing(text: str, answer: Answer) -> bool:
    """Return whether a text only asks, or repeats the answer or its question.

    What was asked and answered becomes memory. If that voided the answer, each use would be its last.
    """
    known = {_plain(each) for each in (answer.text, *answer.phrasings)}
    return only_asks(text) or _plain(text) in known


def _plain(text: str) -> str:
    return normalize(text).text.casefold().rstrip("!")


def prepare_question(text: str, vectors: TextVectors, embedder: str) -> Question:
    """Return what later rows are weighed by."""
    vector, length = vectors(text[:MAX_CHARACTERS])
    return Question(
        text=text, terms=question_terms(text), stems=question_stems(text), sense=_semantic_share(text, vector, vectors),
        vectors={embedder: vector} if length else {},
    )  # fmt: skip


def _semantic_share(text: str, vector: Array, vectors: TextVectors) -> float:
    """Return how much a text's vector says beyond its letters: little if it is near that of the letters alone.

    Of a language that the model hardly knows, it knows the letters: there any two texts are near each other.
    """
    letters = [vectors(each) for each in text[:SENSE_LETTERS] if not each.isspace()]
    spelt = sum((each * length for each, length in letters), np.zeros_like(vector))
    length = float(np.linalg.norm(spelt))
    return 1.0 - max(float(vector @ spelt) / length, 0.0) if length else 0.0


def _find_changed_weight(
    shown: Mapping[Layer, Mapping[int, float]], present: Mapping[Layer, Mapping[int, float]]
) -> str:
    """Return which row that stood in the prompt counts more or less by now."""
    for layer, weights in shown.items():
        for number, weight in weights.items():
            if present[layer].get(number, 0.0) != weight:
                return f"number {number} of the {layer}, which stood in the prompt, was demoted, restored or retired"
    return ""


class BankState(NamedTuple):
    """What a bank's answers can stand or fall with: as long as it is the same, what stood stands."""

    generation: int
    demotions: int
    heads: BankHeads
    writes: int
    """How many versions the blocks have, all together."""


async def fetch_bank_state(tx: Tx, bank: Bank) -> BankState:
    """Return it, as the transaction shows the bank."""
    writes = (await tx.banks.fetch_index_delta(bank.id, after={}, waiting={}, limit=1)).writes
    return BankState(bank.generation, bank.demotions, await tx.views.fetch_heads(bank.id), writes)


async def fetch_rests(tx: Tx, bank: Bank, blocks: Sequence[Block], context: Context) -> AnswerBasis:
    """Return the state of the bank, which has these blocks, for a context that was made of it."""
    numbers = {layer: [hit.scored.number for hit in context.hits if hit.scored.layer is layer] for layer in Layer}
    episodes = await tx.episodes.get_by_numbers(bank.id, numbers[Layer.EPISODES])
    notes = await tx.notes.get_by_numbers(bank.id, numbers[Layer.NOTES])
    return AnswerBasis(
        blocks={block.label: block.version for block in blocks},
        shown=[block.label for block in context.blocks],
        episodes={number: prod(each.weight for each in episode.stale) for number, episode in episodes.items()},
        notes={number: 1.0 for number, note in notes.items() if note.retired_at is None},
        heads=await tx.views.fetch_heads(bank.id),
        generation=bank.generation,
    )
