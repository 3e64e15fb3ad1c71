"""Whether an answer still stands: a function of what it rests on and of what its bank holds now (ANS-04).

It stands as long as the same prompt would still be made for its question, as far as can be told without making it: the
blocks that stood in it, and those that would stand in it now; the notes and episodes that stood in it, with their
weights; and no row that came later may touch the question.
"""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Final, NamedTuple

from circadia.ids import AnswerId
from circadia.latest import Latest
from circadia.memory.answers.meaning import WordVectors
from circadia.memory.answers.others import Others
from circadia.memory.answers.reading import named_besides, subjects
from circadia.memory.answers.repeating import Repeating
from circadia.memory.context import Context, block_terms
from circadia.memory.embedding.base import MAX_CHARACTERS
from circadia.memory.episodes import searched_text
from circadia.memory.question import Question
from circadia.memory.retrieval import Retrieval, Since
from circadia.memory.terms import asked_terms
from circadia.memory.touching import COMMON, Later
from circadia.records.answer import Answer, Rests
from circadia.records.bank import Bank
from circadia.records.block import Block
from circadia.records.episode import EpisodeKind
from circadia.records.excerpt import Excerpt
from circadia.records.index_entry import Layer
from circadia.records.ready_view import Heads
from circadia.stores.base import Tx

LOOKED_THROUGH: Final = 20_000
"""Answers of which is kept up to which rows nothing touches them, and as many that stand no more, 200 bytes each."""


class Standing:
    """Tells why an answer stands no more."""

    def __init__(self, retrieval: Retrieval, vectors: WordVectors, embedder: str, repeating: Repeating) -> None:
        """`embedder` is the name under which rows have vectors of the same kind as those of words."""
        self._retrieval = retrieval
        self._vectors = vectors
        self._embedder = embedder
        self._repeating = repeating
        self._others = Others(vectors)
        self._seen: Latest[tuple[AnswerId, str], Heads] = Latest(LOOKED_THROUGH)
        """By answer and question."""
        self._void: Latest[AnswerId, str] = Latest(LOOKED_THROUGH)
        """Why answers stand no more: what touched one may be gone by now, and the world is not what it was."""

    async def why_not(self, tx: Tx, bank: Bank, answer: Answer, *, most: int | None) -> str:
        """Return why not, in words; empty if it stands. At most so many texts of later rows are read in each layer."""
        if answer.id in self._void:
            return self._void[answer.id]
        rests = answer.rests
        if rests.generation != bank.generation:
            return "something was forgotten since, or vectors were made anew"
        if not answer.phrasings:
            return "its question is gone"
        question = self._question(answer.phrasings[0], answer.text)
        shown = {Layer.EPISODES: rests.episodes, Layer.NOTES: rests.notes}
        seen = self._seen.get((answer.id, answer.phrasings[0]), rests.heads)
        since = await self._retrieval.since(tx, bank, shown, rests.heads, seen, question)
        if since is None:
            return "the transaction is older than something that was forgotten"
        void = _other_weight(shown, since.weights) or await self._other_block(tx, bank, rests, since.blocks, question)
        lacks = ""
        if not void:
            void, lacks = await self._touched(tx, bank, answer, question, since, most)
        if void:
            self._void[answer.id] = void
        return void or lacks

    def _question(self, text: str, answer: str) -> Question:
        vector, length = self._vectors(text[:MAX_CHARACTERS])
        return Question(
            text=text, terms=asked_terms(text), subjects=subjects(text), answered=named_besides(answer, text),
            common=COMMON if self._others.english(text) else (),
            vectors={self._embedder: vector} if length else {},
        )  # fmt: skip

    async def _touched(
        self, tx: Tx, bank: Bank, answer: Answer, question: Question, since: Since, most: int | None
    ) -> tuple[str, str]:
        """Return which later row is about the question, or what lacks to tell; keep in mind up to which none is."""
        looked, lacks = dict(zip((Layer.EPISODES, Layer.NOTES), since.heads, strict=True)), ""
        for layer in Layer:
            later = [each for each in since.later if each.layer is layer]
            some = later[:most]
            excerpts = await self._excerpts(tx, bank, [each.number for each in some], layer)
            for each in some:
                found = excerpts.get(each.number)
                if found is None:
                    return "", f"the transaction is older than number {each.number} of the {layer}"
                if self._touches(found, each, answer, question):
                    return f"number {each.number} of the {layer}, which came later, is about the question", ""
            if len(some) < len(later):
                looked[layer] = some[-1].number
                lacks = f"there are more than {most} later {layer} to look at first"
        key = (answer.id, answer.phrasings[0])
        known = self._seen.get(key, answer.rests.heads)
        self._seen[key] = Heads(*map(max, known, (looked[Layer.EPISODES], looked[Layer.NOTES])))
        return "", lacks

    async def _excerpts(self, tx: Tx, bank: Bank, numbers: Sequence[int], layer: Layer) -> Mapping[int, Excerpt]:
        if not numbers:
            return {}
        return await (tx.episodes if layer is Layer.EPISODES else tx.notes).excerpts(bank.id, numbers)

    def _touches(self, row: Excerpt, later: Later, answer: Answer, question: Question) -> bool:
        if row.kind == EpisodeKind.READY:
            return False  # it was made of what the bank held before, and each row of that is looked at by itself
        if later.elsewhere and self._others.tells(row.text[:MAX_CHARACTERS], question.text):
            return False
        text = row.text[:MAX_CHARACTERS]
        akin = later.akin and (
            self._others.akin(text, question.text) or self._others.corrects(text, question.text, answer.text)
            if later.elsewhere
            else self._others.alters(text, question.text, answer.text)
        )  # fmt: skip
        says = bool(question.common) or not later.elsewhere or self._others.changes(text)
        akin = akin or (later.akin and says and self._others.foreign(text, question.text))
        if not akin and later.least is not None and not self._nearer(row, later.least, question):
            return False
        return not self._repeating.repeats(row.text, row.trust, answer)

    def _nearer(self, row: Excerpt, least: float, question: Question) -> bool:
        """Return whether the text of a row is nearer to the question."""
        if least >= 1:
            return False
        text = row.text if row.speaker is None else searched_text(row.at, row.speaker, row.text)
        vector, _ = self._vectors(text[:MAX_CHARACTERS])
        asked = question.vectors.get(self._embedder)
        return asked is not None and float(vector @ asked) > least

    async def _other_block(self, tx: Tx, bank: Bank, rests: Rests, blocks: Sequence[Block], question: Question) -> str:
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


def _other_weight(shown: Mapping[Layer, Mapping[int, float]], present: Mapping[Layer, Mapping[int, float]]) -> str:
    """Return which row that stood in the prompt counts more or less by now."""
    for layer, weights in shown.items():
        for number, weight in weights.items():
            if present[layer].get(number, 0.0) != weight:
                return f"number {number} of the {layer}, which stood in the prompt, was demoted, restored or retired"
    return ""


class State(NamedTuple):
    """What a bank's answers can stand or fall with: as long as it is the same, what stood stands."""

    generation: int
    demotions: int
    heads: Heads
    writes: int
    """How many versions the blocks have, all together."""


async def state_of(tx: Tx, bank: Bank) -> State:
    """Return it, as the transaction shows the bank."""
    writes = (await tx.banks.news(bank.id, after={}, waiting={}, limit=1)).writes
    return State(bank.generation, bank.demotions, await tx.views.heads(bank.id), writes)


async def rests_of(tx: Tx, bank: Bank, blocks: Sequence[Block], context: Context) -> Rests:
    """Return the state of the bank, which has these blocks, for a context that was made of it."""
    numbers = {layer: [hit.scored.number for hit in context.hits if hit.scored.layer is layer] for layer in Layer}
    episodes = await tx.episodes.numbered(bank.id, numbers[Layer.EPISODES])
    notes = await tx.notes.numbered(bank.id, numbers[Layer.NOTES])
    return Rests(
        blocks={block.label: block.version for block in blocks},
        shown=[block.label for block in context.blocks],
        episodes={number: prod(each.weight for each in episode.stale) for number, episode in episodes.items()},
        notes={number: 1.0 for number, note in notes.items() if note.retired_at is None},
        heads=await tx.views.heads(bank.id),
        generation=bank.generation,
    )
