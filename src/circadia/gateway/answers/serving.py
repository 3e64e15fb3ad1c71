"""Decides what a call gets of the ready answers: the answer, a hint in its context, or nothing (ANS-03).

An answer is served only if everything it may depend on is known: its frame and the bank. Agreements from earlier in
the conversation ("from now on in French", "I mean the shop in Berlin") are in neither, so each earlier question must
have got a served answer, too. Otherwise it is at most a hint, as for a question that is held, has files or tool
results, or requests what no ready answer has.
"""

import hashlib
import logging
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final

from circadia.answers.question_text import only_asks
from circadia.answers.services import (
    MISS,
    AnswerFinder,
    LookupResult,
    are_answers_trusted,
    judged_use_limit,
    no_verdicts,
)
from circadia.caches import BoundedDict
from circadia.clock import Clock
from circadia.errors import CircadiaError
from circadia.gateway.answers.judging import JudgeLimits
from circadia.gateway.calls.headers import as_text, first_value
from circadia.gateway.calls.known_clients import (
    KNOWN_CLIENTS,
    NO_CLIENT,
    STORABLE,
    answer_changing_headers,
    find_client,
)
from circadia.gateway.calls.upstream import ModelCall
from circadia.gateway.dialects.frames import FramedCall, VolatileSpans
from circadia.ids import AgentId, AnswerId, BankId, IdSource
from circadia.memory.banks import BankLayers
from circadia.memory.capture.harness import strip_harness_text
from circadia.memory.context import estimate_tokens
from circadia.records.agent import Agent, AgentPolicy
from circadia.records.answer import Answer, AnswerFrame, AnswerMode, AnswerScope, LookupOutcome, MatchKind
from circadia.records.bank import Bank
from circadia.records.event import AnswerTrust, EventType
from circadia.records.fast_record import fast_record
from circadia.settings.answers import AnswersSettings
from circadia.stores.base import NotASingleRead, Tx
from circadia.stores.event_log import EventLog

MAX_TRUST_ENTRIES: Final = 10_000
"""Cached banks and agents, about 200 bytes each."""
TRUST_EVENTS: Final = (EventType.ANSWERS_FELL_BACK, EventType.ANSWERS_TRUSTED)


@dataclass(frozen=True, kw_only=True, slots=True)
class _TrustEntry:
    answers: int
    """The bank's change counter of answers; a wrong answer is dropped, which moves it."""
    trusted: bool


class AnswerAccuracy:
    """Whether an agent's ready answers are right often enough to be served (ANS-07)."""

    def __init__(self, clock: Clock, events: EventLog, settings: AnswersSettings) -> None:
        self._clock = clock
        self._events = events
        self._settings = settings
        self._known: BoundedDict[tuple[BankId, AgentId], _TrustEntry] = BoundedDict(MAX_TRUST_ENTRIES)
        self._reported: BoundedDict[tuple[BankId, AgentId], bool] = BoundedDict(MAX_TRUST_ENTRIES)

    def forget(self) -> None:
        """Drop what is known, so that it is loaded again."""
        self._known.clear()
        self._reported.clear()

    async def is_trusted(self, tx: Tx, bank: Bank, agent: AgentId) -> bool:
        """Return whether answers are served, in any transaction; reloaded only if the bank's answers changed."""
        known = self._known.get((bank.id, agent))
        if known is None or known.answers != bank.answers:
            known = await self._load_trust(tx, bank, agent)
        return known.trusted

    async def update_trust(self, tx: Tx, bank: Bank, agent: Agent) -> None:
        """Reload the trust in a write transaction; a change is recorded as one event for all processes."""
        now = (await self._load_trust(tx, bank, agent.id)).trusted
        key = (bank.id, agent.id)
        if self._reported.get(key) is now:
            return
        await tx.agents.get(agent.id)
        if await self._load_reported(tx, bank, agent) is not now:
            kind = EventType.ANSWERS_TRUSTED if now else EventType.ANSWERS_FELL_BACK
            least_precision = self._settings.least_precision
            data = AnswerTrust(bank=bank.name, bank_id=bank.id, least_precision=least_precision)
            await self._events.record(tx, kind, data, session=agent.session, agent=agent.name)
        tx.after_commit(lambda: self._reported.update({key: now}))

    async def _load_trust(self, tx: Tx, bank: Bank, agent: AgentId) -> _TrustEntry:
        uses = await tx.answer_uses.find_uses(
            bank.id, agent_id=agent, judged=True, upto=self._clock.now(), limit=judged_use_limit(self._settings)
        )
        known = _TrustEntry(answers=bank.answers, trusted=are_answers_trusted(uses, self._settings))
        self._known[bank.id, agent] = known
        return known

    async def _load_reported(self, tx: Tx, bank: Bank, agent: Agent) -> bool:
        """Return the last reported trust; answers are trusted if nothing was reported."""
        for event in await tx.events.find_newest(session=agent.session, agent=agent.name, types=TRUST_EVENTS):
            if event.data.get("bank_id") == bank.id:
                return event.type is EventType.ANSWERS_TRUSTED
        return True


_logger = logging.getLogger(__name__)

ANSWER: Final = b"x-circadia-answer"
ANSWER_ID: Final = b"x-circadia-answer-id"
ANSWER_REASON: Final = b"x-circadia-answer-reason"
LOADING: Final = b"loading"
"""Reason of a miss while the bank's answers are still loading."""
LONGEST_FRAME: Final = 262_144
"""Maximum characters of a frame; nothing is asked ahead in a longer one."""
REASONING: Final = 400
"""Maximum characters of reasoning in a hint."""
HISTORIES: Final = 20_000
"""Conversations of served answers, about 200 bytes each; a forgotten one gets hints."""
_QUERY: Final = re.compile(r"((api-version|beta)=[A-Za-z0-9_.-]*(&|$))*")
"""The query parameters that are kept; any other may contain a secret."""
_FRESH: Final = frozenset(("no-cache", "no-store"))
_HINT: Final = (
    "- A question that was expected, and its answer as it was worked out ahead. What is asked now may be something "
    "else, or be otherwise since: use it only as far as it fits; what was said later counts more."
)


@fast_record
class CallQuestion:
    call: ModelCall
    scope: AnswerScope
    framed: FramedCall
    user: str | None
    conversation: str
    headers: Sequence[tuple[bytes, bytes]]
    """The headers that may change the answer."""
    serves: bool

    def to_answer_frame(self, bank: Bank, at: datetime) -> AnswerFrame:
        """Return the frame of such questions; where nothing may be asked ahead, one frame for each reason."""
        call, why_not = self.call, self._find_obstacle()
        return AnswerFrame(
            bank_id=bank.id, scope=replace(self.scope, frame=why_not) if why_not else self.scope,
            upstream=call.provider.upstream.name, dialect=call.route.dialect, model=call.request.model or "", at=at,
            target=call.target.partition("?")[0] if why_not else call.target,
            body="" if why_not else self.framed.body, headers=() if why_not else as_text(self.headers),
            why_not=why_not,
        )  # fmt: skip

    def _find_obstacle(self) -> str:
        """Return why nothing may be asked ahead in this frame; empty if it may."""
        unknown = next((name for name, _ in self.headers if name not in STORABLE), None)
        if unknown is not None:
            name = unknown.decode("latin-1")
            return f"header {name!r} is not known, so it may change answers; see `answers.volatile_headers`"
        if not _QUERY.fullmatch(self.call.target.partition("?")[2]):
            return "the address of the call has other parameters than `api-version` and `beta`"
        if len(self.framed.body) > LONGEST_FRAME:
            return f"the prompt and the tools have more than {LONGEST_FRAME:,} characters"
        return self.framed.why_not_ahead and f"of the call: {self.framed.why_not_ahead}"


@fast_record
class Lookup:
    question: CallQuestion
    bank: Bank
    found: LookupResult
    outcome: LookupOutcome
    checkable: bool = False
    """Whether a judge's yes would serve the answer."""
    seconds: float

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        lines = [(ANSWER, self.outcome.value.encode())]
        if self.found.loading:
            lines.append((ANSWER_REASON, LOADING))
        if (answer_id := self.answer_id) is not None:
            lines.append((ANSWER_ID, answer_id.encode()))
        return lines

    @property
    def answer_id(self) -> AnswerId | None:
        """The answer that the call gets, or is shown."""
        found = self.found.answer
        return None if self.outcome is LookupOutcome.MISS or found is None else found.id

    @property
    def is_same_question(self) -> bool:
        """Return whether the answer is to this very question: the text is the same, or a judge said so."""
        match = self.found.match
        return match is not None and (match.kind is MatchKind.EXACT or self.found.outcome is LookupOutcome.HIT)

    def repeats(self, text: str) -> bool:
        """Return whether a text of the call only repeats the answer's question or the served answer."""
        answer, match = self.found.answer, self.found.match
        if not self.is_same_question or answer is None or match is None:
            return False
        if self.outcome is LookupOutcome.HIT and text.strip() == answer.text.strip():
            return True
        if text.strip() != strip_harness_text(self.question.framed.question).strip():
            return False
        return match.kind is MatchKind.EXACT or only_asks(text)

    def choose_hint(self, room: int) -> tuple[AnswerId, bool] | None:
        """Return the answer that fits a context with room for `room` tokens, and whether its reasoning does too."""
        answer = self.found.answer
        if self.outcome is not LookupOutcome.HINT or answer is None:
            return None
        for reasoned in (True, False):
            if estimate_tokens(render_hint(answer, reasoned=reasoned)) + 1 <= room:
                return answer.id, reasoned
        return None


class ServedHistories:
    """Conversations with served answers only, by the hash of everything said."""

    def __init__(self) -> None:
        self._known: BoundedDict[tuple[AgentId, str | None, str], None] = BoundedDict(HISTORIES)

    def has_history(self, agent: AgentId, user: str | None, said: str) -> bool:
        return (agent, user, said) in self._known

    def add(self, agent: AgentId, user: str | None, said: Iterable[str]) -> None:
        """Add a conversation under each hash with which its next call may come."""
        for said_hash in said:
            self._known[agent, user, said_hash] = None


class AnswerResolver:
    def __init__(
        self, clock: Clock, ids: IdSource, finder: AnswerFinder, trust: AnswerAccuracy, volatile: Sequence[str],
        judge: JudgeLimits | None, headers: Iterable[str] = (),
    ) -> None:  # fmt: skip
        """No answer depends on `volatile` spans of a system prompt, nor on these `headers`."""
        self._clock = clock
        self._ids = ids
        self.finder: Final = finder
        self._trust = trust
        self._volatile = {
            client: VolatileSpans(list(dict.fromkeys((*volatile, *client.spans))))
            for client in (*KNOWN_CLIENTS, NO_CLIENT)
        }
        self.judge: Final = judge
        self._headers = frozenset(name.encode() for name in headers)
        self.histories: Final = ServedHistories()

    def read_question(
        self, call: ModelCall, user: str | None, load: Callable[[], dict[str, object]], *, conversation: str,
        held: bool,
    ) -> CallQuestion | None:  # fmt: skip
        """Return the question to look up for a call, whose parsed body `load` returns; None without one.

        A call that was `held` may mention the wake to its model, so no ready answer is served to it.
        """
        policy, codec = call.agent.policy, call.dialect.answer_codec
        if codec is None or not wants_lookups(policy) or not call.route.generates or _wants_fresh_answer(call.headers):
            return None
        client = find_client(first_value(call.headers, b"user-agent") or "")
        try:
            framed = codec.frame_call(load(), self._volatile[client])
        except Exception:  # the boundary of ready answers: their faults must not cost a call its memory
            _logger.exception("a call of %r is not read for ready answers", call.agent.reference)
            return None
        if framed is None or not framed.question.strip() or call.request.model is None:
            return None
        before = framed.conversation(call.request.chain)
        is_new = framed.behind == 0 or (before is not None and self.histories.has_history(call.agent.id, user, before))
        headers = answer_changing_headers(call.headers, self._headers | client.headers)
        return CallQuestion(
            call=call, framed=framed, user=user, conversation=conversation, headers=headers,
            scope=AnswerScope(agent_id=call.agent.id, end_user=user or "", frame=_digest(call, framed, headers)),
            serves=policy.answer_mode is AnswerMode.SERVE and framed.servable and framed.plain and is_new and not held,
        )  # fmt: skip

    async def look_up(self, tx: Tx, banks: BankLayers, asked: CallQuestion) -> Lookup:
        """Look up an answer of the agent's first bank. A hint without room in the context becomes a miss."""
        bank = banks.first
        assert bank is not None
        began = self._clock.monotonic()
        result, serves = MISS, False
        question, policy = asked.framed.question, asked.call.agent.policy
        try:
            judge = self.judge if policy.answer_mode is AnswerMode.SERVE and policy.capture else None
            verdicts = no_verdicts if judge is None else partial(judge.find_verdicts, tx, bank, question)
            others = banks.others if banks.layers else ()
            result = await self.finder.find(tx, bank, asked.scope, question, asked.conversation, verdicts, others)
            serves = asked.serves and (result.match is not None or bool(result.candidates))
            serves = serves and await self._trust.is_trusted(tx, bank, asked.scope.agent_id)
        except (CircadiaError, NotASingleRead):
            raise
        except Exception:  # as above
            _logger.exception("no ready answer is looked up for a call of %r", asked.call.agent.reference)
            result, serves = MISS, False
        outcome = LookupOutcome.HINT if result.outcome is LookupOutcome.HIT and not serves else result.outcome
        judged = self.judge is not None and policy.capture
        return Lookup(
            question=asked, bank=bank, found=result, outcome=outcome, seconds=self._clock.monotonic() - began,
            checkable=serves and judged and bool(result.candidates),
        )  # fmt: skip

    async def says_same(self, lookup: Lookup) -> bool:
        """Ask the judge, if this lookup may wait; return whether a candidate asks the same. The verdict is cached."""
        agent, candidates = lookup.question.call.agent, lookup.found.candidates
        if self.judge is None:
            return False
        if not self.judge.admit(agent.id, candidates[0].similarity if lookup.checkable else None):
            return False
        return await self.judge.ask(agent, lookup.bank, lookup.question.framed.question, candidates)

    def render_answer(self, lookup: Lookup) -> bytes:
        """Return the ready answer as the provider would send it, whole or as a stream, as the call requests."""
        call, answer = lookup.question.call, lookup.found.answer
        codec = call.dialect.answer_codec
        assert codec is not None
        assert answer is not None
        name = self._ids.new("ready").partition("_")[2]
        model, now = call.request.model or "", self._clock.now()
        whole = codec.build_answer(answer.text, id=name, model=model, at=now)
        events = codec.build_events(whole, usage=call.request.wants_usage) if call.request.streamed else None
        return whole if events is None else events


def wants_lookups(policy: AgentPolicy) -> bool:
    """Return whether ready answers are looked up for an agent; hints need a place in its context."""
    hints = policy.inject and policy.fitting_tokens > 0
    return policy.answer_mode is AnswerMode.SERVE or (policy.answer_mode is AnswerMode.HINT and hints)


def as_miss(lookup: Lookup) -> Lookup:
    """Return the lookup of a hint that could not be given."""
    return replace(lookup, outcome=LookupOutcome.MISS)


def render_hint(answer: Answer, *, reasoned: bool) -> str:
    """Return an answer as part of a context."""
    parts, reasoning = [_HINT, f"question: {answer.phrasings[0]}"], answer.reasoning
    if reasoned and reasoning:
        cut = reasoning if len(reasoning) <= REASONING else f"{reasoning[:REASONING]} […]"
        parts.append(f"how it was found: {cut}")
    parts.append(f"answer: {answer.text}")
    # Indented like a context's other lines, so that no line looks like the start of another item.
    return "\n    ".join(line for part in parts for line in part.splitlines())


def _wants_fresh_answer(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Return whether the caller refuses stored answers (RFC 9111, 5.2.1)."""
    cache_control = first_value(headers, b"cache-control")
    return cache_control is not None and not _FRESH.isdisjoint(
        directive.strip().lower() for directive in cache_control.split(",")
    )


def _digest(call: ModelCall, framed: FramedCall, headers: Iterable[tuple[bytes, bytes]]) -> str:
    policy, hash_state = call.agent.policy, hashlib.sha256(framed.digest.encode())
    context = f"{policy.stable_tokens} {policy.fitting_tokens}" if policy.inject else ""
    for part in (call.provider.upstream.name, call.route.dialect, call.target, context):
        hash_state.update(b"\0" + part.encode("utf-8", "surrogateescape"))
    for name, value in headers:
        hash_state.update(b"\0" + name + b"\0" + value)
    return hash_state.hexdigest()
