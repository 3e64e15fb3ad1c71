"""Usage records of a call: reserved before it is sent, settled once it has ended (GATE-64, GATE-66)."""

from datetime import datetime
from typing import Final

from opentelemetry.trace import INVALID_SPAN, Span

from circadia.gateway.accounting.budget import DEFAULT_OUTPUT_TOKENS, has_budget
from circadia.gateway.calls.model_call import ModelCall
from circadia.gateway.dialects.base import Meter
from circadia.gateway.hold.gate import Admission
from circadia.gateway.memory.conversations import ConversationCall
from circadia.ids import CallId
from circadia.llm.usage import Usage
from circadia.records.call import Call, CallStatus

READY: Final = "ready"
_UNKNOWN: Final = Usage()
_NOTHING: Final = Usage(input_tokens=0, output_tokens=0)


class CallOutcome:
    __slots__ = ("at", "began", "first", "free", "id", "ready", "sent", "span", "status", "too_long")

    def __init__(self, call_id: CallId, at: datetime, began: float) -> None:
        self.id = call_id
        self.at = at
        self.began = began
        self.first: float | None = None
        self.status: int | None = None
        self.span: Span = INVALID_SPAN
        self.sent = False
        """Whether it may have reached the upstream, or was answered without it."""
        self.ready = False
        """Whether it got a ready answer and never went upstream."""
        self.too_long = False
        """Whether the upstream refused it as longer than the model's context."""
        self.free = False
        """Whether the upstream certainly did no work for it."""


def reservation(call: ModelCall, now: datetime) -> tuple[int, int]:
    """Return the tokens and the billionths of a US dollar that a budget reserves for the call."""
    if not has_budget(call.agent.policy):
        return 0, 0
    request = call.request
    output = DEFAULT_OUTPUT_TOKENS if request.output_limit is None else request.output_limit
    worst = call.provider.prices.worst_price(request.model or "", request.input_estimate, output, now)
    return request.input_estimate + output, worst or 0


def build_reserved_row(call: ModelCall, turn: ConversationCall, passage: Admission, outcome: CallOutcome) -> Call:
    return _build_row(call, turn, passage, outcome, None, None)


def build_settled_row(
    call: ModelCall, turn: ConversationCall, passage: Admission, outcome: CallOutcome, meter: Meter, seconds: float
) -> Call:
    return _build_row(call, turn, passage, outcome, meter, seconds)


def _build_row(
    call: ModelCall,
    turn: ConversationCall,
    passage: Admission,
    outcome: CallOutcome,
    meter: Meter | None,
    seconds: float | None,
) -> Call:
    """Return the usage record; it is reserved while there is no meter.

    Half a count would be a guess (input without output), so the usage of a broken answer is unknown. Its reservation
    stays, unless the upstream did no work.
    """
    usage = meter.usage if meter is not None and meter.complete else _UNKNOWN
    if outcome.ready:  # even if its stream reports no usage
        usage = _NOTHING
    known = usage.input_tokens is not None or usage.output_tokens is not None
    free = outcome.free or (outcome.status is not None and outcome.status >= 400)
    tokens, nanousd = (0, 0) if known or free else reservation(call, outcome.at)
    model = (meter.model if meter is not None else None) or call.request.model or "unknown"
    ended = CallStatus.DONE if meter is not None and is_answered(meter, outcome) else CallStatus.FAILED
    cost = call.provider.prices.price(model, usage, outcome.at) if known and not outcome.ready else None
    return Call(
        id=outcome.id,
        at=outcome.at,
        agent_id=call.agent.id,
        session=call.agent.session,
        agent=call.agent.name,
        tier=READY if outcome.ready else "hot",
        upstream=call.provider.upstream.name,
        endpoint=call.dialect.endpoint,
        model=model,
        status=CallStatus.RESERVED if meter is None else ended,
        http_status=outcome.status,
        streamed=call.request.streamed,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        reserved_tokens=tokens,
        reserved_nanousd=nanousd,
        cost_nanousd=0 if outcome.ready else cost,
        held_seconds=passage.held_seconds,
        first_token_seconds=None if outcome.first is None else outcome.first - outcome.began,
        total_seconds=seconds,
        conversation=turn.conversation.id,
        end_user=turn.conversation.end_user,
        turn=turn.counted,
    )


def context_share(call: ModelCall, meter: Meter, outcome: CallOutcome) -> float:
    """Return the share of the model's context that the call filled: 1 if refused as too long, 0 if unknown."""
    if outcome.too_long:
        return 1.0
    read = meter.usage.input_tokens
    window = call.provider.prices.context_window(meter.model or call.request.model or "") if read else None
    return min(1.0, read / window) if read and window else 0.0


def is_answered(meter: Meter, outcome: CallOutcome) -> bool:
    return outcome.status is not None and outcome.status < 400 and meter.complete
