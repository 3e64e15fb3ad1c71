"""Adds a bank's context to a model call: blocks after the system prompt, the rest in the last user turn.

A client sends its history again without these additions. So the fitting part is only in the last user turn, after
everything that a provider can cache, and stays the same while the model works on that turn with tools (MEM-13,
MEM-15).
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from circadia.answers.services import LookupOutcome
from circadia.bounded_dict import BoundedDict
from circadia.gateway.answers.serving import AnswerResolver, CallQuestion, Lookup, as_miss
from circadia.gateway.calls.model_call import ModelCall
from circadia.gateway.memory.change_notice import ChangeNotice
from circadia.gateway.memory.conversations import ConversationCall
from circadia.gateway.payload.prompt import RequestPrompt
from circadia.ids import BankId
from circadia.memory.context import Context, Hit, remaining_tokens
from circadia.memory.search.index import Question
from circadia.memory.search.question_counter import may_keep_question
from circadia.memory.services import MemoryServices
from circadia.memory.uses import BankUse, build_use
from circadia.records.bank import Bank
from circadia.records.block import Block
from circadia.records.per_call import per_call
from circadia.stores.base import Store, Tx

REMEMBERED: Final = 1_000
"""Conversations whose last fitting part is kept, about 5 KB each."""
AGAIN_SECONDS: Final = 1.0
"""Maximum wait for the second lookup after a judge's yes; after that the answer is shown as a hint."""
_ASKED: Final = 2_000
"""Characters searched at each end of a user turn; a file in between is not."""


@dataclass(kw_only=True, slots=True)
class _InjectionState:
    bank: BankId
    generation: int
    question: str
    fitting: str
    hits: Sequence[Hit]
    blocks: Sequence[Block]
    texts: set[str] = field(default_factory=set[str])


@per_call
class InjectedBody:
    body: bytes
    used: BankUse | None = None
    lookup: Lookup | None = None
    """What the call gets of the ready answers; with a hit nothing is injected."""
    told: tuple[Bank, str] | None = None


@per_call
class _InjectionRequest:
    call: ModelCall
    turn: ConversationCall
    asks: bool
    """Whether something may fit its question."""
    again: bool
    """Whether the same question was just asked or only counted; it is then not recorded as asked."""
    known: frozenset[str]
    asked: CallQuestion | None
    hints: bool
    told: list[str]
    """The change notice; empty until it is computed."""


@per_call
class _InjectionResult:
    bank: Bank
    context: Context | None
    """None if none was wanted."""
    lookup: Lookup | None


class Injection:
    """Adds context to calls, and looks for answers that make a call unnecessary."""

    def __init__(self, store: Store, memory: MemoryServices, dreamt: ChangeNotice, answering: AnswerResolver) -> None:
        self._store = store
        self._memory = memory
        self._dreamt = dreamt
        self._answering = answering
        self._given: BoundedDict[tuple[str, str, str | None], _InjectionState] = BoundedDict(REMEMBERED)

    async def inject(
        self,
        call: ModelCall,
        turn: ConversationCall,
        prompt: RequestPrompt,
        body: bytes,
        asked: CallQuestion | None = None,
        *,
        keeps: bool = False,
    ) -> InjectedBody:
        """Return the body with its context, if the policy wants one, or the lookup of a ready answer.

        While the model works on a turn with tools, its context stays. With `keeps`, a missing bank is created: the
        first question of an end user counts, too.
        """
        key = (turn.agent.id, turn.conversation.id, turn.user)
        previous = self._given.get(key)
        works_on = not any(not each.tool for each in prompt.heard)
        repeats = previous is not None and works_on and previous.question == prompt.question
        policy = call.agent.policy
        asks = policy.inject and bool(prompt.question.strip()) and policy.fitting_tokens > 0 and not repeats
        known = prompt.texts | previous.texts if previous is not None and call.request.conversation else prompt.texts
        again = not call.route.generates or (previous is not None and previous.question == prompt.question)
        wanted = _InjectionRequest(
            call=call, turn=turn, asks=asks, known=known, asked=None if repeats else asked,
            hints=asks and prompt.user is not None, told=[], again=again,
        )  # fmt: skip
        result = await self._read_result(wanted, prompt.question)
        if result is None and keeps and wanted.asked is not None:
            result = await self._create_bank(turn, wanted.asked)
        if result is None or result.context is None:
            return InjectedBody(body=body, lookup=None if result is None else result.lookup)
        bank, context = result.bank, result.context
        fitting, hits, blocks = context.fitting, context.hits, context.blocks
        if repeats and previous is not None and (previous.bank, previous.generation) == (bank.id, bank.generation):
            fitting, hits, blocks = previous.fitting, previous.hits, [*context.blocks, *previous.blocks]
        elif asks and call.route.generates:  # a token count is not a statement
            self._keep(key, previous if call.request.conversation else None, bank, prompt.question, context)
        if not context.stable and not fitting:
            return InjectedBody(body=body, lookup=result.lookup)
        use = None
        if call.route.generates:
            upstream, model = call.provider.upstream.name, call.request.model
            use = build_use(bank, call.agent.id, hits, blocks, known=known, upstream=upstream, model=model)
        notice = (bank, wanted.told[0]) if any(wanted.told) else None
        return InjectedBody(
            body=prompt.with_context(context.stable, fitting), used=use, lookup=result.lookup, told=notice
        )

    def mark_sent(self, given: InjectedBody) -> None:
        """Mark the change notice as shown because the body goes upstream."""
        if given.told is not None:
            self._dreamt.mark_shown(*given.told)

    async def check_lookup(self, turn: ConversationCall, lookup: Lookup) -> Lookup:
        """Let the judge decide, and look up the answer again after its yes: it may have become invalid meanwhile."""
        if not await self._answering.says_same(lookup):
            return lookup
        async with asyncio.timeout(AGAIN_SECONDS), self._store.begin_read() as tx:
            bank = await self._memory.banks.resolve_bound_bank(tx, turn.agent.policy, turn.user)
            again = None if bank is None else await self._answering.look_up(tx, bank, lookup.asked)
        return lookup if again is None or again.outcome is not LookupOutcome.HIT else again

    async def _read_result(self, wanted: _InjectionRequest, question: str) -> _InjectionResult | None:
        retrieval, whose = self._memory.retrieval, (wanted.call.agent.policy.bank, wanted.turn.user)
        if not wanted.asks:
            return await retrieval.glances.run_read(self._store, whose, lambda tx: self._build_result(wanted, tx, None))
        build = partial(self._build_result, wanted)
        return await retrieval.run_question(
            self._store, _shorten_question(question), build, whose=whose, explained=False
        )

    async def _build_result(
        self, wanted: _InjectionRequest, tx: Tx, question: Question | None
    ) -> _InjectionResult | None:
        """Look up a ready answer, and build a context unless it is served; may run twice for a call."""
        policy = wanted.turn.agent.policy
        bank = await self._memory.banks.resolve_bound_bank(tx, policy, wanted.turn.user)
        if bank is None:
            return None
        lookup = None if wanted.asked is None else await self._answering.look_up(tx, bank, wanted.asked)
        if lookup is not None and lookup.outcome is LookupOutcome.HIT:
            return _InjectionResult(bank=bank, context=None, lookup=lookup)
        if not policy.inject:
            return _InjectionResult(bank=bank, context=None, lookup=None if lookup is None else as_miss(lookup))
        if not wanted.told:  # compute it once
            tells = wanted.asks and wanted.call.route.generates
            wanted.told.append(self._dreamt.line(bank) if tells else "")
        (notice,) = wanted.told
        hint = (
            lookup.hint(remaining_tokens(policy.fitting_tokens, notice) // 2)
            if lookup is not None and wanted.hints
            else ""
        )
        question = _with_counting(question, not wanted.again and may_keep_question(bank, wanted.call.agent))
        context = await self._memory.contexts.build(
            tx, bank, question, stable_tokens=policy.stable_tokens, fitting_tokens=policy.fitting_tokens,
            known=wanted.known, first="\n".join(filter(None, (notice, hint))),
        )  # fmt: skip
        return _InjectionResult(
            bank=bank, context=context, lookup=lookup if lookup is None or hint else as_miss(lookup)
        )

    async def _create_bank(self, turn: ConversationCall, asked: CallQuestion) -> _InjectionResult | None:
        async with self._store.begin_write() as tx:
            bank = await self._memory.banks.resolve_bound_bank(tx, turn.agent.policy, turn.user, make=True)
            if bank is None:
                return None
            return _InjectionResult(
                bank=bank, context=None, lookup=as_miss(await self._answering.look_up(tx, bank, asked))
            )

    def _keep(
        self,
        key: tuple[str, str, str | None],
        given: _InjectionState | None,
        bank: Bank,
        question: str,
        context: Context,
    ) -> None:
        """Remember the context for later calls of this turn, and its texts for providers that keep the conversation."""
        state = _InjectionState(
            bank=bank.id, generation=bank.generation, question=question, fitting=context.fitting,
            hits=context.hits, blocks=[block for block in context.blocks if not block.pinned],
        )  # fmt: skip
        state.texts |= {hit.item.text for hit in context.hits}
        if given is not None and given.bank == bank.id:
            state.texts |= given.texts
        self._given[key] = state


def _with_counting(question: Question | None, counted: bool) -> Question | None:
    return question if question is None or counted else replace(question, counted=False)


def _shorten_question(question: str) -> str:
    return question if len(question) <= 2 * _ASKED else f"{question[:_ASKED]} {question[-_ASKED:]}"
