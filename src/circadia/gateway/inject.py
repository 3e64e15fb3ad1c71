"""Puts what a bank has to say into a model call: blocks behind the system prompt, the rest into the last user turn.

A client sends its history again without what was put in. So the fitting part stands in the last user turn only, behind
all that a provider can cache, and stays the same while the model works on that turn with tools (MEM-13, MEM-15).
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from circadia.gateway.dialects.prompt import Prompt
from circadia.gateway.dreamt import Dreamt
from circadia.gateway.model_call import ModelCall
from circadia.gateway.turns import Turn
from circadia.ids import BankId
from circadia.memory.asked import may_keep
from circadia.memory.context import Context, Hit
from circadia.memory.index import Question
from circadia.memory.tier import Memory
from circadia.memory.uses import Use, use_of
from circadia.records.bank import Bank
from circadia.records.block import Block
from circadia.stores.base import Store, Tx

REMEMBERED: Final = 1_000
"""Conversations whose last fitting part is kept, about 5 KB each."""
_ASKED: Final = 2_000
"""Characters from the beginning and from the end of a user turn that are looked for; a file in between is not."""


@dataclass(kw_only=True, slots=True)
class _Given:
    """What one conversation was given last."""

    bank: BankId
    generation: int
    question: str
    fitting: str
    hits: Sequence[Hit]
    blocks: Sequence[Block]
    """Those that are not pinned."""
    texts: set[str] = field(default_factory=set[str])


class Injection:
    """Adds contexts to calls."""

    def __init__(self, store: Store, memory: Memory, dreamt: Dreamt) -> None:
        self._store = store
        self._memory = memory
        self._dreamt = dreamt
        self._given: OrderedDict[tuple[str, str, str | None], _Given] = OrderedDict()

    async def into(self, call: ModelCall, turn: Turn, prompt: Prompt, body: bytes) -> tuple[bytes, Use | None]:
        """Return the body with the context in it, and what stands in that; the same body if there is nothing to say."""
        key = (turn.agent.id, turn.conversation.id, turn.user)
        given = self._given.get(key)
        works_on = not any(not each.tool for each in prompt.heard)
        repeats = given is not None and works_on and given.question == prompt.question
        policy = call.agent.policy
        asks = bool(prompt.question.strip()) and policy.fitting_tokens > 0 and not repeats
        known = prompt.texts | given.texts if given is not None and call.request.conversation else prompt.texts
        again = not call.route.generates or (given is not None and given.question == prompt.question)
        told: list[str] = []

        async def work(tx: Tx, question: Question | None) -> tuple[Bank, Context] | None:
            bank = await self._memory.banks.bound(tx, policy, turn.user)
            if bank is None:
                return None
            if not told:  # once, also if this is begun twice
                told.append(self._dreamt.told(bank) if asks and call.route.generates else "")
            question = _counted(question, not again and may_keep(bank, call.agent))
            context = await self._memory.contexts.build(
                tx,
                bank,
                question,
                stable_tokens=policy.stable_tokens,
                fitting_tokens=policy.fitting_tokens,
                known=known,
                first=told[0],
            )
            return bank, context

        if asks:
            made = await self._memory.retrieval.answered(self._store, _asked(prompt.question), work, explained=False)
        else:
            async with self._store.read() as tx:
                made = await work(tx, None)
        if made is None:
            return body, None
        bank, context = made
        fitting, hits, blocks = context.fitting, context.hits, context.blocks
        if repeats and given is not None and (given.bank, given.generation) == (bank.id, bank.generation):
            fitting, hits, blocks = given.fitting, given.hits, [*context.blocks, *given.blocks]
        elif asks and call.route.generates:  # what is only counted is not said
            self._keep(key, given if call.request.conversation else None, bank, prompt.question, context)
        if not context.stable and not fitting:
            return body, None
        use = None
        if call.route.generates:
            upstream, model = call.provider.upstream.name, call.request.model
            use = use_of(bank, call.agent.id, hits, blocks, known=known, upstream=upstream, model=model)
        return prompt.with_context(context.stable, fitting), use

    def _keep(
        self, key: tuple[str, str, str | None], given: _Given | None, bank: Bank, question: str, context: Context
    ) -> None:
        """Remember it for the next calls of this turn, and its texts for providers that keep the conversation."""
        kept = _Given(
            bank=bank.id, generation=bank.generation, question=question, fitting=context.fitting,
            hits=context.hits, blocks=[block for block in context.blocks if not block.pinned],
        )  # fmt: skip
        kept.texts |= {hit.item.text for hit in context.hits}
        if given is not None and given.bank == bank.id:
            kept.texts |= given.texts
        self._given[key] = kept
        self._given.move_to_end(key)
        if len(self._given) > REMEMBERED:
            self._given.popitem(last=False)


def _counted(question: Question | None, counted: bool) -> Question | None:
    return question if question is None or counted else replace(question, counted=False)


def _asked(question: str) -> str:
    return question if len(question) <= 2 * _ASKED else f"{question[:_ASKED]} {question[-_ASKED:]}"
