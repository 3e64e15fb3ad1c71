"""What the usage ledger says of one call: before it is sent, and once it has ended (GATE-64, GATE-66)."""

from dataclasses import replace
from datetime import datetime

from circadia.gateway.budget import DEFAULT_OUTPUT_TOKENS, budgeted
from circadia.gateway.dialects.base import Meter, Usage
from circadia.gateway.gate import Passage
from circadia.gateway.model_call import ModelCall
from circadia.gateway.turns import Turn
from circadia.ids import CallId
from circadia.records.call import Call, CallStatus


class Outcome:
    """What became of one call."""

    __slots__ = ("began", "first", "free", "sent", "status")

    def __init__(self, began: float) -> None:
        self.began = began
        self.first: float | None = None
        self.status: int | None = None
        self.sent = False
        """Whether it may have reached the upstream."""
        self.free = False
        """Whether the upstream surely did no work for it."""


def reservation(call: ModelCall, now: datetime) -> tuple[int, int]:
    """Return the tokens, and the billionths of a US dollar, that a budget sets aside for the call."""
    if not budgeted(call.agent.policy):
        return 0, 0
    request = call.request
    output = DEFAULT_OUTPUT_TOKENS if request.output_limit is None else request.output_limit
    worst = call.provider.prices.worst_price(request.model or "", request.input_estimate, output, now)
    return request.input_estimate + output, worst or 0


def opened(call: ModelCall, turn: Turn, passage: Passage, call_id: CallId, now: datetime) -> Call:
    """Return the line of a call that is about to be sent."""
    tokens, nanousd = reservation(call, now)
    return Call(
        id=call_id,
        at=now,
        agent_id=call.agent.id,
        session=call.agent.session,
        agent=call.agent.name,
        upstream=call.provider.upstream.name,
        endpoint=call.dialect.endpoint,
        model=call.request.model or "unknown",
        status=CallStatus.RESERVED,
        streamed=call.request.streamed,
        reserved_tokens=tokens,
        reserved_nanousd=nanousd,
        held_seconds=passage.held_seconds,
        conversation=turn.conversation.id,
        end_user=turn.conversation.end_user,
        turn=turn.counted,
    )


def settled(record: Call, call: ModelCall, meter: Meter, outcome: Outcome, now: float) -> Call:
    """Return the line of a call that has ended.

    Half a count would be a guess (what was read, without what was written), so the usage of an answer that broke off is
    unknown; what was reserved for it stays reserved, unless the upstream did no work.
    """
    usage = meter.usage if meter.complete else Usage()
    known = usage.input_tokens is not None or usage.output_tokens is not None
    free = outcome.free or (outcome.status is not None and outcome.status >= 400)
    model = meter.model or record.model
    return replace(
        record,
        model=model,
        status=CallStatus.DONE if answered(meter, outcome) else CallStatus.FAILED,
        http_status=outcome.status,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        reserved_tokens=0 if known or free else record.reserved_tokens,
        reserved_nanousd=0 if known or free else record.reserved_nanousd,
        cost_nanousd=call.provider.prices.price(model, usage, record.at) if known else None,
        first_token_seconds=None if outcome.first is None else outcome.first - outcome.began,
        total_seconds=now - outcome.began,
    )


def answered(meter: Meter, outcome: Outcome) -> bool:
    """Return whether a whole answer came."""
    return outcome.status is not None and outcome.status < 400 and meter.complete
