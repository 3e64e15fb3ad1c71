"""Memory at the gateway: context added to a call before it goes upstream, and capture after it has ended.

None of this may fail or delay a call: a failed lookup is left out, and captured turns are written after the answer
(MEM-14, MEM-15).
"""

import asyncio
import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from itertools import chain
from typing import Final

from circadia.agents.database_contact import DatabaseContact
from circadia.caches import BoundedDict
from circadia.clock import Clock
from circadia.errors import CircadiaError
from circadia.gateway.accounting.write_behind import BacklogSpool, WriteBehindQueue
from circadia.gateway.answers.answer_book import AnswerBook
from circadia.gateway.answers.serving import AnswerResolver, CallQuestion, Lookup, wants_lookups
from circadia.gateway.calls.headers import first_value
from circadia.gateway.calls.upstream import ModelCall
from circadia.gateway.dialects.meters import AnswerContent
from circadia.gateway.hold.bodies import CallBody, run_off_loop
from circadia.gateway.memory.additions import find_notices, has_notices
from circadia.gateway.memory.conversations import CallFollowUp, ConversationCall, PendingTurn, PreparedCall, SideCalls
from circadia.gateway.memory.injection import InjectedBody, Injection, without_memory
from circadia.gateway.payload.options import answer_arguments
from circadia.gateway.payload.prompt import NewUtterance, RequestPrompt
from circadia.ids import AgentId
from circadia.memory.banks import USER, has_shared_layers, is_stranger
from circadia.memory.capture.attribution import Attribution
from circadia.memory.capture.recorder import Exchange, ExchangeRecorder, Utterance
from circadia.memory.redaction import redact
from circadia.memory.uses import UseQueue
from circadia.records.agent import AgentPolicy
from circadia.records.answer import LookupOutcome
from circadia.records.bank import Trust
from circadia.records.conversation import display_alias
from circadia.stores.base import Store
from circadia.stores.signals.base import Signals

_logger = logging.getLogger(__name__)

TURN: Final = "turn"
"""Signal that a call waits for an answer; its key is the agent's bank or template."""
CONTEXT: Final = "context"
"""Signal of the share of its model's context that a call has filled; its key is the agent's bank or template."""
CONVERSATION: Final = "conversation"
"""Signal that a conversation has ended; its key is the agent."""
LOOK_UP_SECONDS: Final = 2.0
"""Maximum wait of a call for its context; after that it goes without."""
SETTLE_SECONDS: Final = 0.25
"""Maximum wait, before a ready answer may be served, until earlier turns are written."""
BOUND: Final = 10_000
"""Exchanges queued while the database is unavailable; 20 MB of usual turns."""
AWAITED: Final = 10_000
"""Background answers whose conversation is remembered, about 300 bytes each."""
_BATCH: Final = 256
"""Exchanges per transaction: under load each transaction waits for some turns of the event loop, however small."""
_FROM_AGENTS: Final = re.compile(r"^<<<message .*>>>$", re.M)
"""Marks of messages that Circadia delivers in a pulse prompt. A user who writes them only loses trust."""


_Speaker = tuple[str | None, str | None]
"""A bank, or a template and an end user."""


def _speaker(policy: AgentPolicy, user: str | None) -> _Speaker:
    return policy.bank, user if policy.bank is not None and USER in policy.bank else None


class ExchangeQueue(WriteBehindQueue[Exchange]):
    def __init__(
        self, clock: Clock, store: Store, spool: BacklogSpool[Exchange], recorder: ExchangeRecorder,
        attribution: Attribution,
    ) -> None:  # fmt: skip
        super().__init__(clock, store, spool, what="exchanges for memory", bound=BOUND, batch=_BATCH)
        self._recorder = recorder
        self._attribution = attribution
        self._last_entries: dict[_Speaker, int] = {}
        """The number of the last entry of each bank, by end user where each has one."""
        self._unanswered: dict[_Speaker, set[int]] = {}
        """Ids of turns that have arrived and are no entries yet."""
        self.has_banks = True
        """Whether any bank is known: without one, attribution is skipped."""

    def forget(self) -> None:
        """Drop what is known of the database; what waits to be written stays."""
        self._attribution.forget()

    def put(self, entry: Exchange) -> None:
        if self.finished_count == self.taken:
            self._last_entries.clear()
        super().put(entry)
        if entry.kept:
            self._last_entries[_speaker(entry.policy, entry.user)] = self.taken

    def expect(self, turn: int, policy: AgentPolicy, user: str | None) -> None:
        """Count a turn from its arrival on, until `stop_expecting`: the bank has it only after its answer (ANS-20)."""
        self._unanswered.setdefault(_speaker(policy, user), set()).add(turn)

    def stop_expecting(self, turn: int, policy: AgentPolicy, user: str | None) -> None:
        turns = self._unanswered.get(_speaker(policy, user), set())
        turns.discard(turn)
        if not turns:
            self._unanswered.pop(_speaker(policy, user), None)

    def is_settled(self, policy: AgentPolicy, user: str | None, turn: int = 0) -> bool:
        """Return whether everything that was said to the bank, apart from this `turn`, is written or lost."""
        speakers = {_speaker(policy, name) for name in (user, None)}
        if any(self._unanswered.get(speaker, set()) - {turn} for speaker in speakers):
            return False
        return max(self._last_entries.get(speaker, 0) for speaker in speakers) <= self.finished_count

    async def settle(self, policy: AgentPolicy, user: str | None, turn: int) -> bool:
        """Write what was said to the bank; return whether that finished in time, and nobody says more."""
        if not self.is_settled(policy, user, turn):
            writing = asyncio.ensure_future(
                self.flush()
            )  # it goes on after the time-out, and after the caller has gone
            writing.add_done_callback(lambda done: done.cancelled() or done.exception())
            await asyncio.wait((writing,), timeout=SETTLE_SECONDS)
        return self.is_settled(policy, user, turn)

    def prepare_spool(self, entries: Sequence[Exchange]) -> Sequence[Exchange]:
        """Return the exchanges without secrets, which are never stored."""
        return [
            replace(exchange, said=[replace(said, text=redact(said.text)) for said in exchange.said])
            for exchange in entries
        ]

    async def write(self, batch: Sequence[Exchange]) -> None:
        try:
            async with self._store.begin_read() as tx:
                self.has_banks = any(exchange.kept for exchange in batch) or bool(await tx.banks.find_all(limit=1))
                if not self.has_banks:
                    return
                keys = await self._recorder.find_bank_keys(tx, [exchange for exchange in batch if exchange.kept])
                exchanges, new, renewals = await self._attribution.attribute(tx, batch)
            exchanges = await self._recorder.clean([exchange for exchange in exchanges if exchange.kept])
            async with self._store.begin_write(*keys) as tx:
                await self.mark_written(tx)
                for renewal in renewals:
                    await tx.provenances.renew(*renewal)
                await tx.provenances.add(new)
                await self._recorder.keep(tx, exchanges)
        except BaseException:
            self._attribution.forget()
            raise


class CallMemory:
    """Memory in the path of a call, for agents that are bound to a bank."""

    def __init__(
        self, clock: Clock, signals: Signals, injection: Injection, exchanges: ExchangeQueue, uses: UseQueue,
        resolver: AnswerResolver, book: AnswerBook, contact: DatabaseContact,
    ) -> None:  # fmt: skip
        self._clock = clock
        self._signals = signals
        self._injection = injection
        self._exchanges = exchanges
        self._uses = uses
        self._resolver = resolver
        self._answer_book = book
        self._contact = contact
        self._side_calls = SideCalls(clock)
        self._background_answers: BoundedDict[tuple[AgentId, str], tuple[str, str | None, bool]] = BoundedDict(AWAITED)
        self.calls = 0
        self.turns = 0

    async def prepare_call(
        self, call: ModelCall, turn: ConversationCall, body: CallBody, *, held: bool = False
    ) -> PreparedCall:
        """Return the body with the bank's context, or a ready answer. The prompt of a `held` call is always read."""
        policy, content, stranger = call.agent.policy, body.content, is_stranger(call.agent.policy, turn.user)
        injects, keeps = bool(policy.inject and (policy.stable_tokens or policy.fitting_tokens)), _keeps_turns(policy)
        wants = injects and has_shared_layers(policy) if stranger else injects or keeps or wants_lookups(policy)
        if policy.bank is None or not wants:
            return await self._prepare_without_memory(call, turn, content, held=held)
        if not (call.dialect.counts_tokens or stranger):
            self._signals.publish(TURN, policy.bank, {"user": turn.user, "turn": id(turn)})
        pending, lookup, prompt, injected = None, None, None, InjectedBody(body=content)
        try:
            prompt, question = await run_off_loop(content, partial(self._read_call, call, turn, body, held, stranger))
            if prompt is None:
                return PreparedCall(body=content)
            pending = self._build_pending_turn(call, prompt, kept=keeps and not stranger)
            # A client's call for a summary goes on with its conversation: it keeps what that has.
            goes_on = bool(prompt.chore) and injects and prompt.continues and bool(turn.conversation.additions)
            if pending.chore and not goes_on:
                return _with_notices(prompt, turn, content, CallFollowUp(pending_turn=pending), held=held)
            self._contact.require_database()
            if injects or question is not None:
                injected = await self._inject(call, turn, prompt, content, question)
            if (lookup := injected.lookup) is not None:  # a check that fails leaves it
                checked = await self._injection.check_lookup(turn, lookup)
                lookup = checked if self._exchanges.is_settled(policy, turn.user, id(turn)) else lookup  # more was said
            if lookup is not None and lookup.outcome is LookupOutcome.HIT:
                hit, lookup = lookup, None  # a hit counts only once its answer is rendered
                follow_up = CallFollowUp(pending_turn=pending, lookup=hit)
                return PreparedCall(body=content, follow_up=follow_up, answer=self._resolver.render_answer(hit))
        except (CircadiaError, TimeoutError) as error:
            _logger.warning("a call of %r goes without memory: %s", call.agent.reference, str(error) or "too slow")
            injected = without_memory(turn, content)
        except Exception:  # the boundary of memory: its faults must not keep an agent from its model
            _logger.exception("a call of %r goes without memory", call.agent.reference)
            injected = without_memory(turn, content)
        self._injection.mark_sent(injected)
        if pending is not None and _brings_news(call, pending, lookup):
            self._exchanges.expect(id(turn), policy, turn.user)
        follow_up = CallFollowUp(
            pending_turn=pending, uses=injected.uses, lookup=lookup, additions=injected.additions,
            shown=injected.texts, memory=injected.memory,
        )  # fmt: skip
        if prompt is not None and injected.body is content and not injected.additions:
            return _with_notices(prompt, turn, content, follow_up, held=held)
        return PreparedCall(
            body=injected.body, follow_up=follow_up, stable=injected.stable, shown=injected.shown,
            prompt=prompt if held else None,  # a large one takes room that the allocator does not give back
        )  # fmt: skip

    async def _inject(
        self, call: ModelCall, turn: ConversationCall, prompt: RequestPrompt, content: bytes,
        question: CallQuestion | None,
    ) -> InjectedBody:  # fmt: skip
        policy = call.agent.policy
        if question is not None and question.serves and not await self._exchanges.settle(policy, turn.user, id(turn)):
            question = replace(question, serves=False)  # the bank lacks something that was said
        async with asyncio.timeout(LOOK_UP_SECONDS):
            return await self._injection.inject(
                call, turn, prompt, content, question, creates_bank=_keeps_turns(policy)
            )  # fmt: skip

    async def _prepare_without_memory(
        self, call: ModelCall, turn: ConversationCall, content: bytes, *, held: bool
    ) -> PreparedCall:
        """Read what a call says that no bank takes: a program may pass it on to an agent whose bank does.

        Of a held call it also tells whether a program asks for itself.
        """
        reads = (self._exchanges.has_banks or held) and call.route.generates
        if not (reads or has_notices(turn.conversation.additions)):
            return PreparedCall(body=content)
        try:
            prompt = await run_off_loop(content, partial(call.dialect.prompt, content))
        except Exception:  # as above
            _logger.exception("a call of %r is not read", call.agent.reference)
            prompt = None
        if prompt is None:
            return PreparedCall(body=content)
        pending = self._build_pending_turn(call, prompt, kept=False) if reads else None
        return _with_notices(prompt, turn, content, CallFollowUp(pending_turn=pending), held=held)

    def on_call_ended(
        self,
        call: ModelCall,
        turn: ConversationCall,
        *,
        answered: bool,
        follow_up: CallFollowUp,
        content: AnswerContent | None,
        hashes: Sequence[str],
        context_share: float,
    ) -> None:
        """Count the call and a completed turn; queue what was said if there is any answer."""
        self._exchanges.stop_expecting(id(turn), call.agent.policy, turn.user)
        pending, lookup = follow_up.pending_turn, follow_up.lookup
        if pending is not None and not pending.chore:
            pending = replace(pending, chore=self._find_side_call(call, pending.question))  # its other call came later
        if answered:
            self._uses.add(*follow_up.uses)
            if lookup is not None and not (pending is not None and pending.chore):
                self._record_lookup(lookup, hashes)
        if call.agent.policy.bank is not None:
            self._publish_turn_end(call.agent.policy.bank, turn, context_share)
        self.calls += 1
        self.turns += int(answered and turn.is_turn)
        if not (answered or content):
            return
        pending = pending or PendingTurn(heard=(), continues=False, at=self._clock.now(), kept=False)
        if content is not None and content.handle is not None:
            kept = _keeps_turns(call.agent.policy)
            self._background_answers[call.agent.id, content.handle] = turn.conversation.id, turn.user, kept
        background_id = content.handle if answered and content is not None else None
        key = _message_key(call, turn, 1) if background_id is None else _digest(call.agent.id, background_id)
        unique = pending.continues or background_id is not None
        answer = self._answer_utterances(
            call, content if call.request.chain else None, key, unique=unique, complete=answered
        )
        utterances = chain(_question_utterances(call, turn, pending), answer)
        if lookup is not None:
            utterances = (replace(utterance, ready=lookup.repeats(utterance.text)) for utterance in utterances)
        self._queue_exchange(call, turn.conversation.id, turn.user, utterances, pending, follow_up.shown)

    def _read_call(
        self, call: ModelCall, turn: ConversationCall, body: CallBody, held: bool, stranger: bool
    ) -> tuple[RequestPrompt | None, CallQuestion | None]:
        """Return the prompt of a call, and its question if ready answers are looked up for it."""
        document, body.document = body.document, None
        prompt = call.dialect.prompt(body.content)
        if prompt is None or prompt.chore or stranger:
            return prompt, None
        conversation = turn.conversation.id
        load = partial(call.dialect.load, body.content) if document is None else lambda: document
        return prompt, self._resolver.read_question(call, turn.user, load, conversation=conversation, held=held)

    def _build_pending_turn(self, call: ModelCall, prompt: RequestPrompt, *, kept: bool) -> PendingTurn:
        chore = prompt.chore or self._find_side_call(call, prompt.question)
        if not chore and call.agent.policy.bank is not None:
            self._side_calls.note(call.agent.id, call.request, prompt.question)
        return PendingTurn(
            heard=prompt.heard, continues=prompt.continues, at=self._clock.now(), question=prompt.question,
            chore=chore, kept=kept,
        )  # fmt: skip

    def _find_side_call(self, call: ModelCall, question: str) -> str:
        return "form" if self._side_calls.is_beside(call.agent.id, call.request, question) else ""

    def on_call_unsent(self, call: ModelCall, turn: ConversationCall) -> None:
        self._exchanges.stop_expecting(id(turn), call.agent.policy, turn.user)
        if call.agent.policy.bank is not None:
            self._publish_turn_end(call.agent.policy.bank, turn, 0.0)

    def _publish_turn_end(self, bank: str, turn: ConversationCall, context_share: float) -> None:
        self._signals.publish(TURN, bank, {"user": turn.user, "turn": id(turn), "ended": True})
        if context_share:
            self._signals.publish(CONTEXT, bank, {"user": turn.user, "filled": context_share})

    def on_background_answer(self, call: ModelCall, handle: str, content: AnswerContent) -> None:
        """Queue an answer made in the background; its question is already queued."""
        # The answer belongs to the original caller, whoever fetches it; after a restart that caller is unknown.
        conversation, user, kept = self._background_answers.get((call.agent.id, handle), (handle, None, True))
        if call.agent.policy.bank is not None and kept and _keeps_turns(call.agent.policy):
            answer = self._answer_utterances(call, content, _digest(call.agent.id, handle), unique=True, complete=True)
            self._queue_exchange(call, conversation, user, answer)

    def on_conversation_ended(self, call: ModelCall, user: str | None) -> None:
        """Report the end of a conversation; where each end user has a bank, only if the user is known."""
        bank = call.agent.policy.bank
        if bank is not None and (user or USER not in bank):
            self._signals.publish(CONVERSATION, call.agent.id, {"user": user or None})

    def _record_lookup(self, lookup: Lookup, hashes: Sequence[str]) -> None:
        try:
            self._answer_book.note(lookup)
        except Exception:  # as above
            _logger.exception("a question is not noted for ready answers")
        if lookup.outcome is LookupOutcome.HIT:
            self._resolver.histories.add(lookup.question.scope.agent_id, lookup.question.user, hashes)

    def _queue_exchange(
        self, call: ModelCall, conversation: str, user: str | None, spoken: Iterator[Utterance],
        turn: PendingTurn | None = None, shown: Sequence[str] = (),
    ) -> None:  # fmt: skip
        try:
            utterances = list(spoken)
        except Exception:  # as above
            _logger.exception("a call of %r is not kept", call.agent.reference)
            return
        if utterances:
            policy = call.agent.policy
            exchange = Exchange(
                policy=policy, user=user, conversation=conversation, agent_session=call.agent.session, said=utterances,
                chore_reason="" if turn is None else turn.chore, kept=turn is None or turn.kept, shown=shown,
            )  # fmt: skip
            self._exchanges.put(exchange)

    def _answer_utterances(
        self, call: ModelCall, content: AnswerContent | None, key: str, *, unique: bool, complete: bool
    ) -> Iterator[Utterance]:
        if content is None:
            return
        # Text beside tool calls is not the answer yet.
        answer = answer_arguments(content.calls, call.request.output_tools)
        texts = [(answer, False, "said")] if answer else []
        texts += [(content.text, bool(content.calls), "said")] if content.text else []
        texts += [(text, True, f"call{number}") for number, text in enumerate(content.calls)]
        for text, tool, what in texts:
            # A repeated call may get another answer, and both were said; of broken answers one is enough.
            part = f"{what}:{_digest(text)}" if complete else f"{what}:broken"
            yield Utterance(
                text=text, speaker=call.agent.name, trust=Trust.AGENT, key=f"{key}:{part}", unique=unique,
                at=self._clock.now(), tool=tool, incomplete=not complete or content.cut,
            )  # fmt: skip


def _brings_news(call: ModelCall, pending: PendingTurn, lookup: Lookup | None) -> bool:
    """Return whether a call has words of a person that the bank will keep, and that ready answers do not know."""
    has_words = pending.kept and any(not utterance.tool for utterance in pending.heard)
    is_known = lookup is not None and lookup.repeats(pending.question)
    return call.route.generates and has_words and not is_known


def _with_notices(
    prompt: RequestPrompt, turn: ConversationCall, content: bytes, follow_up: CallFollowUp, *, held: bool
) -> PreparedCall:
    """Return a call without memory with what its conversation keeps of wakes."""
    shown = find_notices(prompt, turn.conversation.additions) if has_notices(turn.conversation.additions) else ()
    body = prompt.with_additions("", shown) if shown else content
    return PreparedCall(body=body, follow_up=follow_up, prompt=prompt if held else None, shown=shown)


def _keeps_turns(policy: AgentPolicy) -> bool:
    """Return whether turns are kept; a bank that the agent may only read takes none."""
    return policy.capture and policy.bank not in policy.read_banks


def _question_utterances(call: ModelCall, turn: ConversationCall, pending: PendingTurn) -> Iterator[Utterance]:
    trust = first_value(call.headers, b"x-circadia-trust")
    for part, utterance in enumerate(pending.heard):
        if utterance.back > len(call.request.chain):
            continue
        name = None if utterance.name == "user" else utterance.name
        yield Utterance(
            text=utterance.text,
            speaker="tool" if utterance.tool else display_alias(name or turn.user or "user"),
            trust=Trust.TOOL if utterance.tool else _trust(utterance, trust),
            key=f"{_message_key(call, turn, utterance.back)}:{f'tool{part}' if utterance.tool else 'user'}",
            unique=pending.continues,
            at=pending.at,
            tool=utterance.tool,
            turn=not utterance.tool,
            vouched=trust is not None,
        )


def _trust(heard: NewUtterance, declared_trust: str | None) -> Trust:
    """Return the trust of a user turn: the declared one, but no more than that of agents' messages in the text."""
    if declared_trust is not None:
        declared = Trust(declared_trust) if declared_trust in tuple(Trust) else Trust.EXTERNAL
    else:
        declared = Trust.PERSON
    least = Trust.AGENT if _FROM_AGENTS.search(heard.text) else Trust.PERSON
    return max(declared, least, key=lambda trust: trust.rank)


def _message_key(call: ModelCall, turn: ConversationCall, back: int) -> str:
    """Return the key of a message: its agent, user, named conversation and position in the chain."""
    named = first_value(call.headers, b"x-circadia-conversation") or ""
    return _digest(call.agent.id, turn.user or "", named, *call.request.chain[-back:][:1])


def _digest(*parts: str) -> str:
    return blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=16).hexdigest()
