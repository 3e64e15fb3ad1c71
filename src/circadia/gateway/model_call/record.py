"""Usage records of calls: reserved before a call is sent, settled once it has ended (GATE-64, GATE-66)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from opentelemetry.trace import Span

from circadia.clock import Clock
from circadia.gateway.accounting.budget import DEFAULT_OUTPUT_TOKENS, CallBudgetGuard, has_budget
from circadia.gateway.accounting.call_texts import CallTextQueue
from circadia.gateway.accounting.journal import Journal
from circadia.gateway.calls.upstream import ModelCall
from circadia.gateway.memory.call_memory import CallMemory
from circadia.gateway.memory.conversations import ConversationCall, Turns
from circadia.gateway.model_call.hold import Admission
from circadia.gateway.model_call.send import RelayedCall
from circadia.ids import CallId, IdSource, call_of_hold
from circadia.llm.usage import Usage
from circadia.records.call import Call, CallStatus
from circadia.records.conversation import Conversation
from circadia.records.event import EventType, UpstreamError
from circadia.telemetry.traces import Traces, end_call_span

READY: Final = "ready"
_UNKNOWN: Final = Usage()
_NOTHING: Final = Usage(input_tokens=0, output_tokens=0)
_LONGEST_REASON: Final = 64


@dataclass(slots=True)
class LedgerEntry:
    relayed: RelayedCall
    turn: ConversationCall
    admission: Admission
    id: CallId
    at: datetime
    began: float
    span: Span


class Ledger:
    """Records a call in all places: usage, budget, trace, conversation and memory."""

    def __init__(
        self,
        clock: Clock,
        ids: IdSource,
        journal: Journal,
        budget: CallBudgetGuard,
        turns: Turns,
        memory: CallMemory,
        traces: Traces,
        texts: CallTextQueue,
    ) -> None:
        self._clock = clock
        self._ids = ids
        self._journal = journal
        self._budget = budget
        self._turns = turns
        self._memory = memory
        self._traces = traces
        self._texts = texts

    def open_entry(self, relayed: RelayedCall, turn: ConversationCall, admission: Admission) -> LedgerEntry:
        call = relayed.call
        held_id = call_of_hold(admission.hold) if admission.hold else None
        call_id = call.id or held_id or CallId(self._ids.new("call"))
        at, began = self._clock.now(), self._clock.monotonic()
        relayed.kept_bytes = self._texts.kept_bytes
        span = self._traces.start_gateway_span(
            call.dialect.endpoint, call.provider.upstream.name, call.request.model, call.headers
        )
        return LedgerEntry(relayed, turn, admission, call_id, at, began, span)

    async def reserve(self, entry: LedgerEntry) -> None:
        """Reserve what the call may use of its agent's budget. Raises LimitReached if the day has no room."""
        agent = entry.relayed.call.agent
        if has_budget(agent.policy):
            entry.at = (await self._budget.reserve(agent, _build_row(entry, None))).at

    def record_error(self, call: ModelCall, status: int | None, message: str) -> None:
        data = UpstreamError(
            upstream=call.provider.upstream.name, endpoint=call.dialect.endpoint, status=status, message=message
        )
        self._journal.event(EventType.UPSTREAM_ERROR, data, session=call.agent.session, agent=call.agent.name)

    def settle(self, entry: LedgerEntry) -> None:
        """Record how the call ended, or release what was reserved for it if it was not sent."""
        relayed, turn = entry.relayed, entry.turn
        call, meter = relayed.call, relayed.meter
        if not relayed.is_sent:
            if has_budget(call.agent.policy):  # its caller left during the budget check: free the reservation
                self._budget.release(call.agent, entry.id)
            end_call_span(entry.span, None)
            self._memory.on_call_unsent(call, turn)
            return
        row = _build_row(entry, self._clock.monotonic() - entry.began)
        end_call_span(entry.span, row)
        self._journal.put(row)
        if relayed.kept_bytes:
            self._texts.keep(row, relayed.request_start, meter.answer_so_far(), relayed.error_start)
        answered = relayed.is_answered
        self._turns.end(
            turn, call.request, answer=meter.answer_hashes, handle=meter.handle, answered=answered,
            additions=relayed.follow_up.additions if relayed.was_read else "", is_chore=relayed.follow_up.is_chore,
        )  # fmt: skip
        self._memory.on_call_ended(
            call,
            turn,
            answered=answered,
            follow_up=relayed.follow_up,
            content=meter.answer_so_far(),
            hashes=meter.answer_hashes,
            context_share=_context_share(relayed) if call.agent.policy.bank is not None else 0.0,
        )

    def record_passed(self, relayed: RelayedCall, ending: Conversation | None) -> None:
        """Tell memory of a call that generated nothing, and perhaps ended a conversation.

        An answer made in the background is reported when it is fetched.
        """
        if ending is not None and relayed.status is not None and relayed.status < 300:
            self._memory.on_conversation_ended(relayed.call, ending.end_user)
        content = relayed.meter.answer_so_far()
        if content is not None and content.handle is not None:
            self._memory.on_background_answer(relayed.call, content.handle, content)


def reservation(call: ModelCall, now: datetime) -> tuple[int, int]:
    """Return the tokens and the billionths of a US dollar that a budget reserves for the call."""
    if not has_budget(call.agent.policy):
        return 0, 0
    request = call.request
    output = DEFAULT_OUTPUT_TOKENS if request.output_limit is None else request.output_limit
    worst = call.provider.prices.worst_price(request.model or "", request.input_estimate, output, now)
    return request.input_estimate + output, worst or 0


def _build_row(entry: LedgerEntry, seconds: float | None) -> Call:
    """Return the usage record; without `seconds`, it is reserved.

    Half a count would be a guess (input without output), so the usage of a broken answer is unknown. Its reservation
    stays, unless the upstream did no work.
    """
    relayed, turn, call = entry.relayed, entry.turn, entry.relayed.call
    lookup = relayed.follow_up.lookup
    usage = relayed.meter.usage if relayed.meter.complete else _UNKNOWN
    if relayed.is_ready:  # even if its stream reports no usage
        usage = _NOTHING
    known = usage.input_tokens is not None or usage.output_tokens is not None
    tokens, nanousd = (0, 0) if known or relayed.did_nothing else reservation(call, entry.at)
    model = relayed.meter.model or call.request.model or "unknown"
    ended = CallStatus.DONE if relayed.is_answered else CallStatus.FAILED
    cost = call.provider.prices.price(model, usage, entry.at) if known and not relayed.is_ready else None
    return Call(
        id=entry.id,
        at=entry.at,
        agent_id=call.agent.id,
        session=call.agent.session,
        agent=call.agent.name,
        tier=READY if relayed.is_ready else "hot",
        upstream=call.provider.upstream.name,
        endpoint=call.dialect.endpoint,
        model=model,
        status=CallStatus.RESERVED if seconds is None else ended,
        http_status=relayed.status,
        streamed=call.request.streamed,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        reserved_tokens=tokens,
        reserved_nanousd=nanousd,
        cost_nanousd=0 if relayed.is_ready else cost,
        held_seconds=entry.admission.held_seconds,
        first_token_seconds=None if relayed.first_byte_at is None else relayed.first_byte_at - entry.began,
        total_seconds=seconds,
        conversation=turn.conversation.id,
        end_user=turn.conversation.end_user,
        turn=turn.is_turn,
        stop_reason=relayed.meter.stop_reason and relayed.meter.stop_reason[:_LONGEST_REASON],
        retries=max(relayed.sends - 1, 0),
        lookup=None if lookup is None else lookup.outcome.value,
        answer_id=None if lookup is None else lookup.answer_id,
        memory=relayed.follow_up.memory,
    )


def _context_share(relayed: RelayedCall) -> float:
    """Return the share of the model's context that the call filled: 1 if refused as too long, 0 if unknown."""
    if relayed.is_too_long:
        return 1.0
    call, meter = relayed.call, relayed.meter
    read = meter.usage.input_tokens
    window = call.provider.prices.context_window(meter.model or call.request.model or "") if read else None
    return min(1.0, read / window) if read and window else 0.0
