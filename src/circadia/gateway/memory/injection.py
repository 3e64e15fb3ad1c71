"""Puts what a bank has to say into a model call: blocks behind the system prompt, the rest into the last user turn.

A client sends its history again without what was put in. So the fitting part stands in the last user turn only, behind
all that a provider can cache, and stays the same while the model works on that turn with tools (MEM-13, MEM-15).
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from circadia.answers.lookup import LookupOutcome
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
"""How long a call waits at most until an answer that was checked is found again; then it is shown as a hint."""
_ASKED: Final = 2_000
"""Characters from the beginning and from the end of a user turn that are looked for; a file in between is not."""


@dataclass(kw_only=True, slots=True)
class _InjectionState:
    """What one conversation was given last."""

    bank: BankId
    generation: int
    question: str
    fitting: str
    hits: Sequence[Hit]
    blocks: Sequence[Block]
    """Those that are not pinned."""
    texts: set[str] = field(default_factory=set[str])


@per_call
class InjectedBody:
    """A call's body with what its bank says to it."""

    body: bytes
    """The body; the same if the bank says nothing."""
    used: BankUse | None = None
    """What of a bank's derived memory stands in it."""
    lookup: Lookup | None = None
    """What the call gets of the ready answers; with a hit nothing is put into it."""
    told: tuple[Bank, str] | None = None
    """Whose line of what passes have changed stands in it, and that line."""


@per_call
class _InjectionRequest:
    """What is looked for, for one call."""

    call: ModelCall
    turn: ConversationCall
    asks: bool
    """Whether something may fit its question."""
    again: bool
    """Whether the same was asked a moment ago, or is only counted: it is no asking of its own."""
    known: frozenset[str]
    asked: CallQuestion | None
    hints: bool
    """Whether there is a place for a hint."""
    told: list[str]
    """The line of what passes have changed; not worked out yet as long as it is empty."""


@per_call
class _InjectionResult:
    """What was found."""

    bank: Bank
    context: Context | None
    """None where none was wanted."""
    lookup: Lookup | None


class Injection:
    """Adds contexts to calls, and looks for answers that make one needless."""

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
        """Return the body with the context in it, if the policy wants one, or that there is an answer to what is asked.

        While the model works on a turn with tools, what stands in it stays. If what is said is kept (`keeps`), the bank
        is made where it is not there: the first question of an end user counts, too.
        """
        key = (turn.agent.id, turn.conversation.id, turn.user)
        given = self._given.get(key)
        works_on = not any(not each.tool for each in prompt.heard)
        repeats = given is not None and works_on and given.question == prompt.question
        policy = call.agent.policy
        asks = policy.inject and bool(prompt.question.strip()) and policy.fitting_tokens > 0 and not repeats
        known = prompt.texts | given.texts if given is not None and call.request.conversation else prompt.texts
        again = not call.route.generates or (given is not None and given.question == prompt.question)
        wanted = _InjectionRequest(
            call=call, turn=turn, asks=asks, known=known, asked=None if repeats else asked,
            hints=asks and prompt.user is not None, told=[], again=again,
        )  # fmt: skip
        whose = (policy.bank, turn.user)
        if asks:
            made = await self._memory.retrieval.run_question(
                self._store, _shorten_question(prompt.question), partial(self._build_result, wanted),
                whose=whose, explained=False,
            )  # fmt: skip
        else:
            made = await self._memory.retrieval.glances.run_read(
                self._store, whose, lambda tx: self._build_result(wanted, tx, None)
            )
        if made is None and keeps and wanted.asked is not None:
            made = await self._create_bank(turn, wanted.asked)
        if made is None or made.context is None:
            return InjectedBody(body=body, lookup=None if made is None else made.lookup)
        bank, context = made.bank, made.context
        fitting, hits, blocks = context.fitting, context.hits, context.blocks
        if repeats and given is not None and (given.bank, given.generation) == (bank.id, bank.generation):
            fitting, hits, blocks = given.fitting, given.hits, [*context.blocks, *given.blocks]
        elif asks and call.route.generates:  # what is only counted is not said
            self._keep(key, given if call.request.conversation else None, bank, prompt.question, context)
        if not context.stable and not fitting:
            return InjectedBody(body=body, lookup=made.lookup)
        use = None
        if call.route.generates:
            upstream, model = call.provider.upstream.name, call.request.model
            use = build_use(bank, call.agent.id, hits, blocks, known=known, upstream=upstream, model=model)
        told = (bank, wanted.told[0]) if any(wanted.told) else None
        return InjectedBody(body=prompt.with_context(context.stable, fitting), used=use, lookup=made.lookup, told=told)

    def mark_sent(self, given: InjectedBody) -> None:
        """Learn that the body goes upstream."""
        if given.told is not None:
            self._dreamt.mark_shown(*given.told)

    async def check_lookup(self, turn: ConversationCall, lookup: Lookup) -> Lookup:
        """Have the judge decide about what is only similar, and return what the call gets then.

        The judge takes a while, so the answer is looked up again after its yes: one that became void meanwhile is none.
        """
        if not await self._answering.says_same(lookup):
            return lookup
        async with asyncio.timeout(AGAIN_SECONDS), self._store.begin_read() as tx:
            bank = await self._memory.banks.resolve_bound_bank(tx, turn.agent.policy, turn.user)
            again = None if bank is None else await self._answering.look_up(tx, bank, lookup.asked)
        return lookup if again is None or again.outcome is not LookupOutcome.HIT else again

    async def _build_result(
        self, wanted: _InjectionRequest, tx: Tx, question: Question | None
    ) -> _InjectionResult | None:
        """Look for a ready answer, and build a context unless that is served; this may be begun twice for a call."""
        policy = wanted.turn.agent.policy
        bank = await self._memory.banks.resolve_bound_bank(tx, policy, wanted.turn.user)
        if bank is None:
            return None
        lookup = None if wanted.asked is None else await self._answering.look_up(tx, bank, wanted.asked)
        if lookup is not None and lookup.outcome is LookupOutcome.HIT:
            return _InjectionResult(bank=bank, context=None, lookup=lookup)
        if not policy.inject:
            return _InjectionResult(bank=bank, context=None, lookup=None if lookup is None else as_miss(lookup))
        if not wanted.told:  # once
            tells = wanted.asks and wanted.call.route.generates
            wanted.told.append(self._dreamt.line(bank) if tells else "")
        (told,) = wanted.told
        hint = (
            lookup.hint(remaining_tokens(policy.fitting_tokens, told) // 2)
            if lookup is not None and wanted.hints
            else ""
        )
        question = _with_counting(question, not wanted.again and may_keep_question(bank, wanted.call.agent))
        context = await self._memory.contexts.build(
            tx, bank, question, stable_tokens=policy.stable_tokens, fitting_tokens=policy.fitting_tokens,
            known=wanted.known, first="\n".join(filter(None, (told, hint))),
        )  # fmt: skip
        return _InjectionResult(
            bank=bank, context=context, lookup=lookup if lookup is None or hint else as_miss(lookup)
        )

    async def _create_bank(self, turn: ConversationCall, asked: CallQuestion) -> _InjectionResult | None:
        """Make the bank and look for an answer, which it cannot have yet."""
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
        """Remember it for the next calls of this turn, and its texts for providers that keep the conversation."""
        kept = _InjectionState(
            bank=bank.id, generation=bank.generation, question=question, fitting=context.fitting,
            hits=context.hits, blocks=[block for block in context.blocks if not block.pinned],
        )  # fmt: skip
        kept.texts |= {hit.item.text for hit in context.hits}
        if given is not None and given.bank == bank.id:
            kept.texts |= given.texts
        self._given[key] = kept


def _with_counting(question: Question | None, counted: bool) -> Question | None:
    return question if question is None or counted else replace(question, counted=False)


def _shorten_question(question: str) -> str:
    return question if len(question) <= 2 * _ASKED else f"{question[:_ASKED]} {question[-_ASKED:]}"
