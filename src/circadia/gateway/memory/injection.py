"""Adds a bank's context to a model call: blocks after the system prompt, the rest behind the newest user turn.

A client sends its history again without these additions. So each stays with its turn, as the conversation's row names
it, and is put there again in every later call (`additions.py`; MEM-13, MEM-15, MEM-37).
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from math import inf
from typing import Final

from circadia.errors import InvalidRequest
from circadia.gateway.answers.serving import AnswerResolver, CallQuestion, Lookup, as_miss
from circadia.gateway.calls.headers import first_value
from circadia.gateway.calls.upstream import ModelCall
from circadia.gateway.memory.additions import (
    NOTHING_KEPT,
    TIMES,
    Addition,
    AdditionRenderer,
    KeptAdditions,
    RenderedAddition,
    count_dropped,
    decode_additions,
    find_superseded,
    known_blocks,
    rendered_addition,
    stable_keys,
    text_hash,
)
from circadia.gateway.memory.conversations import ConversationCall
from circadia.gateway.memory.line_keys import (
    LineKey,
    LineKind,
    bank_key,
    block_key,
    day_key,
    encode_memory,
    hit_key,
    left_out_key,
)
from circadia.gateway.memory.notices import ChangeNotice, render_changes
from circadia.gateway.payload.prompt import RequestPrompt
from circadia.ids import BankId
from circadia.memory.banks import BankLayers
from circadia.memory.context import Context, Hit, find_day, remaining_tokens
from circadia.memory.layers import build_layered_context, render_left_out
from circadia.memory.search.index import Question
from circadia.memory.services import MemoryServices
from circadia.memory.uses import BankUse, build_uses
from circadia.records.answer import LookupOutcome
from circadia.records.bank import Bank
from circadia.records.block import Block
from circadia.records.fast_record import fast_record
from circadia.records.value_filter import MATCHES_NOTHING, Condition, parse_filter
from circadia.stores.base import Store, Tx
from circadia.stores.signals.base import Signals

PREFIX_BREAK: Final = "prefix_break"
"""Signal that a call does not begin as the one before it, with the reason and the bytes that are read again."""
AGAIN_SECONDS: Final = 1.0
"""Maximum wait for the second lookup after a judge's yes; after that the answer is shown as a hint."""
_SEARCHED_CHARS: Final = 2_000
"""Characters searched at each end of a user turn; a file in between is not."""


@fast_record
class InjectedBody:
    body: bytes
    uses: Sequence[BankUse] = ()
    lookup: Lookup | None = None
    """What the call gets of the ready answers; with a hit nothing is injected."""
    change_notice: tuple[Bank, str] | None = None
    stable: str = ""
    """What was added on the system side."""
    shown: Sequence[tuple[int, str]] = ()
    """What was added behind messages of the prompt, by their index."""
    additions: str = ""
    """What the conversation's row keeps if the body is answered; empty if nothing was added."""
    memory: str = ""
    """What the call's ledger line keeps of it."""
    breaks: Sequence[tuple[str, int]] = ()
    """Reason and bytes of each break of what the call before it has sent."""

    @property
    def texts(self) -> Sequence[str]:
        """All texts of memory in the body."""
        return self.stable, *(text for _, text in self.shown)


def without_memory(turn: ConversationCall, body: bytes) -> InjectedBody:
    """Return a body whose memory did not come; where the calls before it had some, a provider reads it again."""
    return InjectedBody(body=body, breaks=[("lookup", len(body))] if turn.conversation.additions else ())


@fast_record
class _InjectionRequest:
    call: ModelCall
    turn: ConversationCall
    prompt: RequestPrompt
    kept: KeptAdditions
    current: Addition | None
    """What was added to the newest user turn by an earlier call."""
    is_stored: bool
    """Whether the provider keeps the conversation, with all that was added."""
    wants_fitting: bool
    """Whether something may fit its question."""
    question: CallQuestion | None
    where: Sequence[Condition]
    """The caller's conditions on episodes that may fit."""
    first: list[LineKey]
    """The changes to report; empty until they are computed, and if there are none."""

    @property
    def zone(self) -> str:
        return self.call.agent.coordination.zone

    @property
    def wants_hint(self) -> bool:
        return self.wants_fitting and self.prompt.turn >= 0


@fast_record
class _InjectionResult:
    banks: BankLayers
    context: Context | None
    """None if none was wanted."""
    lookup: Lookup | None
    stable: str = ""
    blocks: Sequence[Block] = ()
    """Those of the stable part."""
    sent: Sequence[tuple[Addition, RenderedAddition]] = ()
    """What earlier calls added to turns of the prompt."""
    new: RenderedAddition | None = None
    """What is added to the newest turn; None if an earlier call has asked for it."""


class Injection:
    """Adds context to calls, and looks for answers that make a call unnecessary."""

    def __init__(
        self,
        store: Store,
        signals: Signals,
        memory: MemoryServices,
        change_notice: ChangeNotice,
        resolver: AnswerResolver,
    ) -> None:
        self._store = store
        self._signals = signals
        self._memory = memory
        self._change_notice = change_notice
        self._resolver = resolver
        self._renderer = AdditionRenderer(memory.contexts)

    async def inject(
        self,
        call: ModelCall,
        turn: ConversationCall,
        prompt: RequestPrompt,
        body: bytes,
        question: CallQuestion | None = None,
        *,
        creates_bank: bool = False,
    ) -> InjectedBody:
        """Return the body with its context, if the policy wants one, or the lookup of a ready answer.

        While the model works on a turn with tools, its context stays. A call in which a program asks about the
        conversation has what earlier calls added, and nothing new. With `creates_bank`, a missing bank is created: the
        first question of an end user counts, too.
        """
        kept, is_stored = decode_additions(turn.conversation.additions), bool(call.request.conversation)
        if is_stored and turn.conversation.is_branched_by(call.request.conversation):
            kept = NOTHING_KEPT  # what was added since that answer is not in it
        works_on = all(utterance.tool for utterance in prompt.heard)
        current = None if is_stored else kept.find(prompt, prompt.turn)
        policy, where = call.agent.policy, _read_filter(call)
        request = _InjectionRequest(
            call=call, turn=turn, prompt=prompt, kept=kept, current=current, is_stored=is_stored, first=[],
            wants_fitting=not (current or prompt.chore) and bool(prompt.question.strip()) and policy.fitting_tokens > 0,
            # What a ready answer rests on was not filtered.
            question=None if where or (current is not None and works_on) else question, where=where,
        )  # fmt: skip
        result = await self._read_result(request)
        if result is None and creates_bank and request.question is not None:
            result = await self._create_bank(turn, request.question)
        if result is None or result.context is None:
            return InjectedBody(body=body, lookup=None if result is None else result.lookup)
        return self._build_body(request, result, body)

    def _build_body(self, request: _InjectionRequest, result: _InjectionResult, body: bytes) -> InjectedBody:
        call, kept, prompt, banks, new = request.call, request.kept, request.prompt, result.banks, result.new
        sent, dropped = list(result.sent), 0
        if new is not None:
            tokens = inf if request.is_stored else TIMES * call.agent.policy.fitting_tokens
            dropped = count_dropped([rendered for _, rendered in sent], new, tokens)
        shown = [] if request.is_stored else [(each.at, rendered.text) for each, rendered in sent[dropped:]]
        if new is not None:
            shown.append((prompt.turn, new.text))
        if not call.route.generates or prompt.chore:
            return InjectedBody(
                body=prompt.with_additions(result.stable, shown), stable=result.stable, shown=shown,
                lookup=result.lookup, additions=request.turn.conversation.additions,
            )  # fmt: skip
        turns = [
            replace(each, lines=rendered.lines, shown=rendered.shown)
            for each, rendered in sent[dropped:]
            if rendered.lines
        ]
        if new is not None:
            mark = prompt.messages[prompt.turn].mark
            turns.append(Addition(at=prompt.turn, mark=mark, lines=new.lines, shown=new.shown))
        elif request.current is not None and not request.current.lines:
            turns.append(request.current)
        corrected = {bank.id: kept.demotions_of(bank) if new is None else bank.demotions for bank in banks.banks}
        first_id = BankId("") if banks.first is None else banks.first.id
        additions = KeptAdditions(
            bank=first_id, demotions=corrected.pop(first_id, 0), layers=tuple(corrected.items()),
            stable=stable_keys(banks, result.blocks), stable_shown=text_hash(result.stable), turns=tuple(turns),
        ).encode()  # fmt: skip
        newest = new or next((rendered for each, rendered in sent if each is request.current), None)
        hits, blocks = ((), ()) if newest is None else (newest.hits, newest.blocks)
        earlier = [each for each in result.sent if each[0] is not request.current]
        uses = build_uses(
            banks.banks, call.agent.id, hits, [*result.blocks, *blocks], known=_known_texts(prompt, earlier),
            upstream=call.provider.upstream.name, model=call.request.model,
        )  # fmt: skip
        changes = next((str(line[1]) for line in request.first if new and line[0] == LineKind.CHANGES), "")
        is_plain = not result.stable and not any(text for _, text in shown)
        return InjectedBody(
            body=body if is_plain else prompt.with_additions(result.stable, shown), stable=result.stable, shown=shown,
            uses=uses, lookup=result.lookup, additions=additions, breaks=_find_breaks(request, result, dropped),
            memory=encode_memory(first_id, stable_keys(banks, result.blocks), newest.lines if newest else ()),
            change_notice=(banks.first, changes) if changes and banks.first is not None else None,
        )  # fmt: skip

    def mark_sent(self, injected: InjectedBody) -> None:
        """Mark the change notice as shown and count the breaks because the body goes upstream."""
        for reason, size in injected.breaks:
            self._signals.publish(PREFIX_BREAK, "", {"reason": reason, "bytes": size})
        if injected.change_notice is not None:
            self._change_notice.mark_shown(*injected.change_notice)

    async def check_lookup(self, turn: ConversationCall, lookup: Lookup) -> Lookup:
        """Let the judge decide, and look up the answer again after its yes: it may have become invalid meanwhile."""
        if lookup.outcome is LookupOutcome.HIT or not await self._resolver.says_same(lookup):
            return lookup
        async with asyncio.timeout(AGAIN_SECONDS), self._store.begin_read() as tx:
            banks = await self._memory.banks.resolve_layers(tx, turn.agent.policy, turn.user)
            again = None if banks.first is None else await self._resolver.look_up(tx, banks, lookup.question)
        return lookup if again is None or again.outcome is not LookupOutcome.HIT else again

    async def _read_result(self, wanted: _InjectionRequest) -> _InjectionResult | None:
        policy = wanted.call.agent.policy
        retrieval, whose = self._memory.retrieval, (policy.bank, policy.banks, wanted.turn.user)
        if not (wanted.wants_fitting and policy.inject):
            return await retrieval.glances.run_read(self._store, whose, lambda tx: self._build_result(wanted, tx, None))
        build, question = partial(self._build_result, wanted), _shorten_question(wanted.prompt.question)
        return await retrieval.run_question(
            self._store, question, build, whose=whose, before=wanted.prompt.exchange, explained=False,
            zone=wanted.zone,
        )  # fmt: skip

    async def _build_result(
        self, request: _InjectionRequest, tx: Tx, question: Question | None
    ) -> _InjectionResult | None:
        """Look up a ready answer, and build a context unless it is served; may run twice for a call."""
        policy, kept = request.turn.agent.policy, request.kept
        banks = await self._memory.banks.resolve_layers(tx, policy, request.turn.user)
        if banks.first is None and not banks.layers:
            return None
        asked = None if banks.first is None else request.question
        lookup = None if asked is None else await self._resolver.look_up(tx, banks, asked)
        if lookup is not None and lookup.outcome is LookupOutcome.HIT:
            return _InjectionResult(banks=banks, context=None, lookup=lookup)
        if not policy.inject:
            return _InjectionResult(banks=banks, context=None, lookup=None if lookup is None else as_miss(lookup))
        sent: list[tuple[Addition, RenderedAddition]] = []
        if kept.is_of(banks.first):
            turns = kept.turns if request.is_stored else kept.sent(request.prompt)
            sent = [(each, await self._renderer.render(tx, banks, each.lines, request.zone)) for each in turns]
        if question is not None:
            question = replace(question, where=request.where)
        first, lookup = await self._find_first_lines(request, tx, banks, lookup, sent)
        before = await self._renderer.render(tx, banks, first, request.zone)
        new, context = await self._build_context(request, tx, banks, question, before, sent)
        stable, blocks = context.stable, [block for block in context.blocks if block.pinned]
        is_new: bool = question is not None
        if question is None:
            is_same_turn = request.current is not None or request.is_stored or bool(request.prompt.chore)
            if is_same_turn and kept.is_of(banks.first) and kept.stable != stable_keys(banks, blocks):
                stable, blocks = await self._renderer.render_stable(tx, banks, kept.stable)
            is_new = request.current is None and request.prompt.turn >= 0 and not request.prompt.chore
        return _InjectionResult(
            banks=banks, context=context, lookup=lookup, stable=stable, blocks=blocks, sent=sent,
            new=new if is_new else None,
        )  # fmt: skip

    async def _build_context(
        self, request: _InjectionRequest, tx: Tx, banks: BankLayers, question: Question | None,
        before: RenderedAddition, sent: Sequence[tuple[Addition, RenderedAddition]],
    ) -> tuple[RenderedAddition, Context]:  # fmt: skip
        """Return what is added to the newest turn, with the lines `before` in front, and the context that it is of."""
        policy, today = request.turn.agent.policy, find_day(question)
        if today is not None and any(day_key(today) in each.lines for each, _ in sent):
            today = None
        known = _known_texts(request.prompt, sent).union(before.texts)
        blocks_of = known_blocks(request.kept, (each for each, _ in sent))
        if banks.layers:
            return await self._build_layered_context(request, tx, banks, question, before, sent, known, today)
        assert banks.first is not None
        context = await self._memory.contexts.build(
            tx, banks.first, question, stable_tokens=policy.stable_tokens, fitting_tokens=policy.fitting_tokens,
            known=known, first=before.unfenced, known_blocks=blocks_of.get(banks.first.id, ()), today=today,
        )  # fmt: skip
        fitting = [block for block in context.blocks if not block.pinned]
        new = before
        if fitting or context.hits:
            day = () if today is None else (day_key(today),)
            lines = (*day, *before.lines, *map(block_key, fitting), *map(hit_key, context.hits))
            new = rendered_addition(context.fitting, lines, hits=context.hits, blocks=fitting)
        if question is not None:
            self._renderer.keep(banks, new, request.zone)
        return new, context

    async def _build_layered_context(
        self, request: _InjectionRequest, tx: Tx, banks: BankLayers, question: Question | None,
        before: RenderedAddition, sent: Sequence[tuple[Addition, RenderedAddition]], known: frozenset[str],
        today: date | None,
    ) -> tuple[RenderedAddition, Context]:  # fmt: skip
        """Do the same with several banks, each under its name; one that is not there is named once."""
        policy, kept, first = request.turn.agent.policy, request.kept, before.unfenced
        left_out: tuple[LineKey, ...] = (left_out_key(banks.left_out),) if banks.left_out and question else ()
        if left_out and any(left_out[0] in each.lines for each, _ in sent):
            left_out = ()
        if left_out:
            first = "\n".join(filter(None, (render_left_out(str(left_out[0][1])), first)))
        corrections: dict[BankId, RenderedAddition] = {}
        for bank in banks.others if question is not None else ():
            lines = await find_superseded(tx, bank, kept.demotions_of(bank), _hits(sent))
            if lines:
                corrections[bank.id] = await self._renderer.render(tx, banks, (bank_key(bank), *lines), request.zone)
        context = await build_layered_context(
            self._memory.contexts, tx, banks.layers, question, stable_tokens=policy.stable_tokens,
            fitting_tokens=policy.fitting_tokens, known=known, first=first, today=today,
            known_blocks=known_blocks(kept, (each for each, _ in sent)),
            first_of={bank_id: each.unfenced.partition("\n")[2] for bank_id, each in corrections.items()},
        )  # fmt: skip
        if question is None:
            return before, context
        day = (day_key(today),) if today is not None and context.lines else ()
        lines = [*day, *left_out, *before.lines]
        for each in context.lines:
            said = corrections[each.bank.id].lines[1:] if each.bank.id in corrections else ()
            lines += (bank_key(each.bank), *said, *map(block_key, each.part.blocks), *map(hit_key, each.part.hits))
        fitting = [block for each in context.lines for block in each.part.blocks]
        new = rendered_addition(context.fitting, tuple(lines), hits=context.hits, blocks=fitting)
        self._renderer.keep(banks, new, request.zone)
        return new, context

    async def _find_first_lines(
        self, request: _InjectionRequest, tx: Tx, banks: BankLayers, lookup: Lookup | None,
        sent: Sequence[tuple[Addition, RenderedAddition]],
    ) -> tuple[tuple[LineKey, ...], Lookup | None]:  # fmt: skip
        """Return what comes first (changes, a hint, corrections), and the lookup, which is a miss without a hint."""
        if not request.wants_fitting:
            return (), None if lookup is None else as_miss(lookup)
        bank = banks.first
        if bank is None:
            return (), None
        if not request.first and request.call.route.generates and (changes := self._change_notice.counts(bank)):
            request.first.append((LineKind.CHANGES.value, changes, 0, 1))  # once, though this may run twice
        lines = list(request.first)
        text = "".join(render_changes(str(line[1])) for line in lines)
        room = remaining_tokens(request.call.agent.policy.fitting_tokens, text) // 2
        hint = lookup.choose_hint(room) if lookup is not None and request.wants_hint else None
        newer: list[LineKey] = []
        if hint is not None and lookup is not None and lookup.found.newer:  # the answer does not know this turn
            newer = [(LineKind.NEWER.value, lookup.found.newer, 0, 1)]
            said = await self._renderer.render(tx, banks, tuple(newer), request.zone)
            if not _known_texts(request.prompt, sent).isdisjoint(said.texts):
                newer = []
            elif said.tokens > room:
                hint = None
        if hint is not None:
            lines += [(LineKind.HINT.value, hint[0], int(hint[1]), 1), *newer]
        lines += await find_superseded(tx, bank, request.kept.demotions_of(bank), _hits(sent))
        return tuple(lines), lookup if lookup is None or hint is not None else as_miss(lookup)

    async def _create_bank(self, turn: ConversationCall, question: CallQuestion) -> _InjectionResult | None:
        async with self._store.begin_write() as tx:
            bank = await self._memory.banks.resolve_bound_bank(tx, turn.agent.policy, turn.user, make=True)
            if bank is None:
                return None
            banks = BankLayers(first=bank)
            lookup = as_miss(await self._resolver.look_up(tx, banks, question))
            return _InjectionResult(banks=banks, context=None, lookup=lookup)


def _read_filter(call: ModelCall) -> Sequence[Condition]:
    """Return the filter that the caller states; of one that cannot be read, nothing fits."""
    stated = first_value(call.headers, b"x-circadia-where")
    try:
        return parse_filter(stated and stated.encode("latin-1"))
    except InvalidRequest:
        return MATCHES_NOTHING


def _known_texts(prompt: RequestPrompt, sent: Sequence[tuple[Addition, RenderedAddition]]) -> frozenset[str]:
    """Return the texts that the prompt has, or what the provider keeps of it, before the newest turn's addition."""
    return prompt.texts.union(*(rendered.texts for _, rendered in sent))


def _hits(sent: Iterable[tuple[Addition, RenderedAddition]]) -> Sequence[Hit]:
    return [hit for _, rendered in sent for hit in rendered.hits]


def _find_breaks(request: _InjectionRequest, result: _InjectionResult, dropped: int) -> Sequence[tuple[str, int]]:
    """Return why and by how many bytes a provider reads again what the call before has sent."""
    prompt, kept = request.prompt, request.kept
    if request.is_stored or not prompt.continues:
        return ()
    if not request.turn.conversation.additions:
        return [("lookup", prompt.size_from(prompt.system))]
    breaks: list[tuple[str, int]] = []
    if not kept.is_of(result.banks.first):
        breaks.append(("rights" if kept.bank else "form", prompt.size_from(prompt.system)))
    elif kept.stable_shown != text_hash(result.stable):
        same = kept.stable == stable_keys(result.banks, result.blocks)
        breaks.append(("forgotten" if same else "blocks", prompt.size_from(prompt.system)))
    if dropped:
        breaks.append(("budget", prompt.size_from(prompt.slot(result.sent[0][0].at))))
    forgotten = (each.at for each, rendered in result.sent[dropped:] if each.shown not in ("", rendered.shown))
    if (at := next(forgotten, None)) is not None:
        breaks.append(("forgotten", prompt.size_from(prompt.slot(at))))
    return breaks


def _shorten_question(question: str) -> str:
    return (
        question
        if len(question) <= 2 * _SEARCHED_CHARS
        else f"{question[:_SEARCHED_CHARS]} {question[-_SEARCHED_CHARS:]}"
    )
