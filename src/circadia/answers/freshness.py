"""Whether an answer is still valid, from what it rests on and what its bank holds now (ANS-04, ANS-20).

An answer is void once something that stood in its prompt has changed. While a turn of its bank is newer than the last
one that was read for it (`Answer.read_upto`), it is uncertain, and only a hint.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Final, NamedTuple

from circadia.answers.services import Validity
from circadia.caches import BoundedDict
from circadia.ids import AnswerId, BankId
from circadia.memory.context import Context, block_terms
from circadia.memory.search.retrieval import Retrieval
from circadia.memory.search.terms import question_terms
from circadia.records.answer import Answer, AnswerBasis
from circadia.records.bank import Bank
from circadia.records.block import Block
from circadia.records.index_entry import BankHeads, Layer
from circadia.stores.base import Tx

CACHED_ANSWERS: Final = 20_000
"""Answers whose reason to be void is cached, a few hundred bytes each."""


class AnswerFreshness:
    def __init__(self, retrieval: Retrieval) -> None:
        self._retrieval = retrieval
        self._void: BoundedDict[AnswerId, str] = BoundedDict(CACHED_ANSWERS)
        """Reasons for void answers. They outlive the row that voided the answer, which may be gone by now."""

    def forget(self) -> None:
        """Drop what was found out about answers."""
        self._void.clear()

    async def check(self, tx: Tx, bank: Bank, answer: Answer) -> Validity:
        """Return whether an answer may be served: it depends on rows alone, so all processes agree at once."""
        if answer.id in self._void:
            return Validity(self._void[answer.id])
        basis = answer.basis
        if basis.generation != bank.generation:
            return Validity("rows were forgotten, or vectors were rebuilt")
        if not answer.phrasings:
            return Validity("its question is gone")
        weights = {Layer.EPISODES: basis.episodes, Layer.NOTES: basis.notes}
        present = await self._retrieval.read_weights(tx, bank, weights)
        if present is None:
            return Validity("the transaction is older than something that was forgotten")
        void = _find_changed_weight(weights, present.weights) or await _find_changed_block(
            tx, bank, answer, present.blocks
        )
        if void:
            self._void[answer.id] = void
        return Validity(void, present.newest_turn if present.newest_turn > answer.read_upto else 0)


async def _find_changed_block(tx: Tx, bank: Bank, answer: Answer, blocks: Sequence[Block]) -> str:
    basis, terms = answer.basis, question_terms(answer.phrasings[0])
    present = {block.label: block for block in blocks}
    for label in basis.shown:
        if label not in present or present[label].version != basis.blocks.get(label):
            return f"block {label!r}, which stood in the prompt, was written or deleted since"
    for label, block in present.items():
        if block.version != basis.blocks.get(label):
            if block.pinned:
                return f"block {label!r}, which is pinned, was written since"
            if not block_terms(block).isdisjoint(terms):
                return f"block {label!r}, which shares a word with the question, was written since"
    for label in basis.blocks.keys() - present.keys():
        history = await tx.blocks.history(bank.id, label)
        if any(block.pinned and block.version == basis.blocks[label] for block in history):
            return f"block {label!r}, which was pinned, was deleted since"
    return ""


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


async def fetch_layers(tx: Tx, banks: Iterable[Bank]) -> Mapping[BankId, str]:
    """Return a text for each of an agent's other banks that changes with its rows."""
    states = {bank.id: await fetch_bank_state(tx, bank) for bank in banks}
    return {key: f"{now[0]}.{now[1]}.{now.heads[0]}.{now.heads[1]}.{now.writes}" for key, now in states.items()}


async def fetch_basis(
    tx: Tx, bank: Bank, blocks: Sequence[Block], context: Context, others: Iterable[Bank]
) -> AnswerBasis:
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
        layers=await fetch_layers(tx, others),
    )
