"""Memory at the gateway: what a call is given before it goes upstream, and what is kept of it once it has ended.

Nothing of it may fail or delay a call: what cannot be looked up is left out, and what is kept is written behind the
answer (MEM-14, MEM-15).
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

from circadia.answers.lookup import LookupOutcome
from circadia.bounded_dict import BoundedDict
from circadia.clock import Clock
from circadia.errors import CircadiaError
from circadia.gateway.accounting.write_behind import WriteBehindQueue
from circadia.gateway.answers.answer_book import AnswerBook
from circadia.gateway.answers.serving import AnswerResolver, Lookup, wants_lookups
from circadia.gateway.calls.headers import first_value
from circadia.gateway.calls.model_call import ModelCall
from circadia.gateway.dialects.base import AnswerContent
from circadia.gateway.hold.bodies import run_off_loop
from circadia.gateway.memory.conversations import NOTHING, CallFollowUp, ConversationCall, PendingTurn, PreparedCall
from circadia.gateway.memory.injection import InjectedBody, Injection
from circadia.gateway.payload.output_tools import answer_arguments
from circadia.gateway.payload.prompt import NewUtterance, RequestPrompt
from circadia.ids import AgentId
from circadia.memory.banks import USER, is_stranger
from circadia.memory.capture.attribution import Attribution
from circadia.memory.capture.recorder import Exchange, ExchangeRecorder, Utterance
from circadia.memory.uses import UseQueue
from circadia.records.agent import AgentPolicy
from circadia.records.bank import Trust
from circadia.records.end_user import display_alias
from circadia.stores.base import Store
from circadia.stores.signals.base import Signals

_logger = logging.getLogger(__name__)

TURN: Final = "turn"
"""The signal that somebody waits for an answer; its key is the agent's bank, or template."""
CONVERSATION: Final = "conversation"
"""The signal that a conversation has ended; its key is the agent."""
LOOK_UP_SECONDS: Final = 2.0
"""How long a call waits for its context at most; then it goes without."""
SETTLE_SECONDS: Final = 0.25
"""How long a call that may be served waits at most until what was said just before it is written."""
BOUND: Final = 10_000
"""Exchanges that wait to be written while the database is away; 20 MB of usual turns."""
AWAITED: Final = 10_000
"""Answers from the background whose conversation is remembered, about 300 bytes each."""
_BATCH: Final = 256
"""Exchanges in one transaction: under load each transaction waits for some turns of the event loop, however small."""
_FROM_AGENTS: Final = re.compile(r"^<<<message .*>>>$", re.M)
"""Marks of messages that Circadia delivers in the prompt of a pulse; who writes them himself is trusted less for it."""


class ExchangeQueue(WriteBehindQueue[Exchange]):
    """Writes exchanges behind the answers."""

    def __init__(self, clock: Clock, store: Store, capturing: ExchangeRecorder, attribution: Attribution) -> None:
        super().__init__(clock, what="exchanges for memory", bound=BOUND, batch=_BATCH)
        self._store = store
        self._capturing = capturing
        self._attribution = attribution
        self._clock = clock
        self._last: dict[tuple[str | None, str | None], int] = {}
        """Which entry was the last one of a bank's or template's end user, or of those whom nobody has named."""
        self.has_banks = True
        """Whether there is a bank, as far as is known: without one nobody asks whose word anything is."""

    def put(self, entry: Exchange) -> None:
        """Have the exchange written soon."""
        if self.finished_count == self.taken:
            self._last.clear()
        super().put(entry)
        if entry.kept:
            self._last[entry.policy.bank, entry.user] = self.taken

    def is_settled(self, policy: AgentPolicy, user: str | None) -> bool:
        """Return whether all that this person, or anybody without a name, has said to the bank is written, or lost."""
        return max(self._last.get((policy.bank, each), 0) for each in (user, None)) <= self.finished_count

    async def settle(self, policy: AgentPolicy, user: str | None) -> bool:
        """Have what this person, or anybody without a name, has said written now; return whether it is, soon enough."""
        if not self.is_settled(policy, user):
            writing = asyncio.ensure_future(self.flush())  # it goes on if it takes longer, and if the caller goes
            writing.add_done_callback(lambda done: done.cancelled() or done.exception())
            await asyncio.wait((writing,), timeout=SETTLE_SECONDS)
        return self.is_settled(policy, user)

    async def write(self, batch: Sequence[Exchange]) -> None:
        """Write exchanges in one transaction."""
        try:
            async with self._store.begin_read() as tx:
                self.has_banks = any(each.kept for each in batch) or bool(await tx.banks.find_all(limit=1))
                if not self.has_banks:
                    return
                exchanges, new = await self._attribution.attribute(tx, batch)
            exchanges = await self._capturing.clean([each for each in exchanges if each.kept])
            async with self._store.begin_write() as tx:
                await tx.provenances.add(new, self._clock.now())
                await self._capturing.keep(tx, exchanges)
        except BaseException:
            self._attribution.forget()
            raise


class CallMemory:
    """The sleep tier's part of a call: memory, where the agent is bound to a bank."""

    def __init__(
        self, clock: Clock, signals: Signals, injection: Injection, exchanges: ExchangeQueue, uses: UseQueue,
        answering: AnswerResolver, book: AnswerBook,
    ) -> None:  # fmt: skip
        self._clock = clock
        self._signals = signals
        self._injection = injection
        self._exchanges = exchanges
        self._uses = uses
        self._answering = answering
        self._book = book
        self._awaited: BoundedDict[tuple[AgentId, str], tuple[str, str | None]] = BoundedDict(AWAITED)
        """Conversation and end user of answers that are made in the background."""
        self.calls = 0
        self.turns = 0

    async def prepare_call(
        self, call: ModelCall, turn: ConversationCall, body: bytes, *, held: bool = False
    ) -> PreparedCall:
        """Return the body with what the agent's bank says to it, the same if that is nothing; or the answer."""
        policy = call.agent.policy
        injects, keeps = bool(policy.inject and (policy.stable_tokens or policy.fitting_tokens)), _keeps_turns(policy)
        if policy.bank is None or not (injects or keeps or wants_lookups(policy)) or is_stranger(policy, turn.user):
            return PreparedCall(body=body, noted=await self._read_unkept_call(call, body))
        if not call.dialect.counts_tokens:
            self._signals.publish(TURN, policy.bank, {"user": turn.user, "turn": id(turn)})
        told = lookup = None
        given = InjectedBody(body=body)
        try:
            prompt = await run_off_loop(body, partial(call.dialect.prompt, body))
            if prompt is None:
                return PreparedCall(body=body)
            told = self._build_pending_turn(prompt, kept=keeps)
            if prompt.chore:
                return PreparedCall(body=body, noted=CallFollowUp(told=told))
            asked = await run_off_loop(
                body,
                partial(
                    self._answering.read_question, call, turn.user, body, conversation=turn.conversation.id, held=held
                ),
            )
            if asked is not None and asked.serves and not await self._exchanges.settle(policy, turn.user):
                asked = replace(asked, serves=False)  # something was said that the bank does not know
            if injects or asked is not None:
                async with asyncio.timeout(LOOK_UP_SECONDS):
                    given = await self._injection.inject(call, turn, prompt, body, asked, keeps=keeps)
            lookup = given.lookup
            if lookup is not None and lookup.outcome is not LookupOutcome.HIT:
                lookup = await self._injection.check_lookup(turn, lookup)
            if lookup is not None and lookup.outcome is LookupOutcome.HIT:
                hit, lookup = lookup, None  # it is one as soon as its answer is written
                answer = self._answering.render_answer(hit)
                return PreparedCall(body=body, noted=CallFollowUp(told=told, lookup=hit), answer=answer)
        except (CircadiaError, TimeoutError) as error:
            _logger.warning("a call of %r goes without memory: %s", call.agent.reference, str(error) or "too slow")
        except Exception:  # the boundary of memory: no fault of it may keep an agent from its model
            _logger.exception("a call of %r goes without memory", call.agent.reference)
        self._injection.mark_sent(given)
        return PreparedCall(body=given.body, noted=CallFollowUp(told=told, used=given.used, lookup=lookup))

    def on_call_ended(
        self,
        call: ModelCall,
        turn: ConversationCall,
        *,
        answered: bool,
        noted: CallFollowUp,
        said: AnswerContent | None,
        hashes: Sequence[str],
        filled: float,
    ) -> None:
        """Count the call and the completed turn; have what was said written soon, if anything was answered."""
        told, lookup = noted.told, noted.lookup
        if answered:
            self._uses.add(noted.used)
            if lookup is not None:
                self._note(lookup, hashes)
        if call.agent.policy.bank is not None:
            self._publish_turn_end(call.agent.policy.bank, turn, filled)
        self.calls += 1
        self.turns += int(answered and turn.counted)
        if not (answered or said):
            return
        told = told or PendingTurn(heard=(), continues=False, at=self._clock.now(), kept=False)
        if said is not None and said.handle is not None:
            self._awaited[call.agent.id, said.handle] = turn.conversation.id, turn.user
        behind = said.handle if answered and said is not None else None
        key = _message_key(call, turn, 1) if behind is None else _digest(call.agent.id, behind)
        unique = told.continues or behind is not None
        answer = self._answer_utterances(call, said if call.request.chain else None, key, unique=unique, whole=answered)
        exchanged = chain(_question_utterances(call, turn, told), answer)
        if lookup is not None:
            exchanged = (replace(each, ready=lookup.repeats(each.text)) for each in exchanged)
        self._keep(call, turn.conversation.id, turn.user, exchanged, chore=told.chore, kept=told.kept)

    async def _read_unkept_call(self, call: ModelCall, body: bytes) -> CallFollowUp:
        """Return what a call says that no bank takes: a program may hand it on to an agent whose bank takes turns."""
        if not (self._exchanges.has_banks and call.route.generates):
            return NOTHING
        try:
            prompt = await run_off_loop(body, partial(call.dialect.prompt, body))
        except Exception:  # as above
            _logger.exception("a call of %r is not read", call.agent.reference)
            return NOTHING
        return NOTHING if prompt is None else CallFollowUp(told=self._build_pending_turn(prompt, kept=False))

    def _build_pending_turn(self, prompt: RequestPrompt, *, kept: bool) -> PendingTurn:
        return PendingTurn(
            heard=prompt.heard, continues=prompt.continues, at=self._clock.now(), chore=prompt.chore, kept=kept,
        )  # fmt: skip

    def on_call_unsent(self, call: ModelCall, turn: ConversationCall) -> None:
        """Tell the sleep tier that nobody waits for an answer any more."""
        if call.agent.policy.bank is not None:
            self._publish_turn_end(call.agent.policy.bank, turn, 0.0)

    def _publish_turn_end(self, bank: str, turn: ConversationCall, filled: float) -> None:
        self._signals.publish(TURN, bank, {"user": turn.user, "turn": id(turn), "ended": True, "filled": filled})

    def on_background_answer(self, call: ModelCall, handle: str, said: AnswerContent) -> None:
        """Have an answer written that was made in the background; what was asked for it is there."""
        if call.agent.policy.bank is not None and _keeps_turns(call.agent.policy):
            # Whoever fetches it, it was made for the one who asked; after a restart nobody knows who that was.
            session, user = self._awaited.get((call.agent.id, handle), (handle, None))
            answer = self._answer_utterances(call, said, _digest(call.agent.id, handle), unique=True, whole=True)
            self._keep(call, session, user, answer)

    def on_conversation_ended(self, call: ModelCall, user: str | None) -> None:
        """Tell that a conversation has ended; where each end user has a bank, only if it is known whose it was."""
        bank = call.agent.policy.bank
        if bank is not None and (user or USER not in bank):
            self._signals.publish(CONVERSATION, call.agent.id, {"user": user or None})

    def _note(self, lookup: Lookup, hashes: Sequence[str]) -> None:
        try:
            self._book.note(lookup)
        except Exception:  # as above
            _logger.exception("a question is not noted for ready answers")
        if lookup.outcome is LookupOutcome.HIT:
            self._answering.histories.add(lookup.asked.scope.agent_id, lookup.asked.user, hashes)

    def _keep(
        self, call: ModelCall, session: str, user: str | None, said: Iterator[Utterance], *, chore: bool = False,
        kept: bool = True,
    ) -> None:  # fmt: skip
        try:
            utterances = list(said)
        except Exception:  # as above
            _logger.exception("a call of %r is not kept", call.agent.reference)
            return
        if utterances:
            policy = call.agent.policy
            exchange = Exchange(
                policy=policy, user=user, session=session, agent_session=call.agent.session, said=utterances,
                chore=chore, kept=kept,
            )  # fmt: skip
            self._exchanges.put(exchange)

    def _answer_utterances(
        self, call: ModelCall, said: AnswerContent | None, key: str, *, unique: bool, whole: bool
    ) -> Iterator[Utterance]:
        if said is None:
            return
        # What comes with calls of tools is not the answer yet.
        answer = answer_arguments(said.calls, call.request.output_tools)
        texts = [(answer, False, "said")] if answer else []
        texts += [(said.text, bool(said.calls), "said")] if said.text else []
        texts += [(text, True, f"call{number}") for number, text in enumerate(said.calls)]
        for text, tool, what in texts:
            # A call that is sent again may be answered otherwise, and both were said; of what broke off one is enough.
            part = f"{what}:{_digest(text)}" if whole else f"{what}:broken"
            yield Utterance(
                text=text, speaker=call.agent.name, trust=Trust.AGENT, key=f"{key}:{part}", unique=unique,
                at=self._clock.now(), tool=tool, incomplete=not whole or said.cut,
            )  # fmt: skip


def _keeps_turns(policy: AgentPolicy) -> bool:
    """Return whether turns are kept: a bank that the agent may only read takes none."""
    return policy.capture and policy.bank not in policy.read_banks


def _question_utterances(call: ModelCall, turn: ConversationCall, told: PendingTurn) -> Iterator[Utterance]:
    trust = first_value(call.headers, b"x-circadia-trust")
    for part, heard in enumerate(told.heard):
        if heard.back > len(call.request.chain):
            continue
        named = None if heard.name == "user" else heard.name
        yield Utterance(
            text=heard.text,
            speaker="tool" if heard.tool else display_alias(named or turn.user or "user"),
            trust=Trust.TOOL if heard.tool else _trust(heard, trust),
            key=f"{_message_key(call, turn, heard.back)}:{f'tool{part}' if heard.tool else 'user'}",
            unique=told.continues,
            at=told.at,
            tool=heard.tool,
            turn=not heard.tool,
            vouched=trust is not None,
        )


def _trust(heard: NewUtterance, told: str | None) -> Trust:
    """Return where a user turn came from: what the caller says, and never more than a text with agents' messages."""
    if told is not None:
        said = Trust(told) if told in tuple(Trust) else Trust.EXTERNAL
    else:
        said = Trust.PERSON
    least = Trust.AGENT if _FROM_AGENTS.search(heard.text) else Trust.PERSON
    return max(said, least, key=lambda each: each.rank)


def _message_key(call: ModelCall, turn: ConversationCall, back: int) -> str:
    """Return what tells a message: who has it with whom, in which named conversation, and behind what."""
    named = first_value(call.headers, b"x-circadia-conversation") or ""
    return _digest(call.agent.id, turn.user or "", named, *call.request.chain[-back:][:1])


def _digest(*parts: str) -> str:
    return blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=16).hexdigest()
