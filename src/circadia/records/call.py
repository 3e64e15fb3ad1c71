"""One model call in the usage ledger."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from circadia.ids import AgentId, AnswerId, CallId
from circadia.records.fast_record import fast_record


class CallStatus(StrEnum):
    """State of a call; a call under a budget is reserved before it goes upstream."""

    RESERVED = "reserved"
    DONE = "done"
    FAILED = "failed"


@fast_record
class Call:
    """Usage and timing of a model call. Counts that the provider did not report are none."""

    id: CallId
    at: datetime
    agent_id: AgentId
    session: str
    agent: str
    """The agent's name; for a call of the sleep tier, whose session is empty, the bank's name."""
    tier: str = "hot"
    """`hot`, `ready` if a ready answer was served, or `sleep` for a call of the sleep tier."""
    upstream: str
    """Name of the provider in the configuration."""
    endpoint: str
    """API of the call: `chat_completions`, `responses`, `messages`, …"""
    model: str
    """As named in the request, or in the answer where it differs."""
    status: CallStatus
    http_status: int | None = None
    streamed: bool = False
    input_tokens: int | None = None
    """Includes cached tokens."""
    output_tokens: int | None = None
    """Includes reasoning tokens."""
    cached_tokens: int | None = None
    """Part of the input that the provider's cache supplied."""
    reasoning_tokens: int | None = None
    """Part of the output."""
    reserved_tokens: int = 0
    """Counted by budgets until the usage is known."""
    reserved_nanousd: int = 0
    """Counted by budgets until the price is known, in billionths of a US dollar."""
    cost_nanousd: int | None = None
    """In billionths of a US dollar."""
    held_seconds: float = 0.0
    first_token_seconds: float | None = None
    """From admission to the first byte of the response body."""
    total_seconds: float | None = None
    """From admission to the end."""
    conversation: str | None = None
    """Its conversation (GATE-67)."""
    end_user: str | None = None
    turn: bool = False
    """Whether the last message came from the user."""
    stop_reason: str | None = None
    """Why the model stopped, in the provider's word."""
    retries: int = 0
    """How often the gateway sent it again."""
    lookup: str | None = None
    """Outcome of its lookup of ready answers; none if it had none."""
    answer_id: AnswerId | None = None
    """The ready answer that it got, or had as a hint."""
    memory: str = ""
    """The rows of memory that were added for its newest turn (`MemoryKeys`); empty without any."""


@fast_record
class CallText:
    """The request and the answer of a call, where the settings keep them: redacted and cut."""

    id: CallId
    at: datetime
    request: str
    response: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CallFilter:
    """Which calls a list has; none of a value means any."""

    session: str | None = None
    agent: str | None = None
    model: str | None = None
    tier: str | None = None
    status: CallStatus | None = None
    upstream: str | None = None
    end_user: str | None = None
    conversation: str | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CallPage:
    calls: Sequence[Call]
    next: str | None
    """Cursor of the next page, which may be there although this one is not full; none in the last one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentSpend:
    """What counts for an agent's budgets, open reservations included."""

    calls: int
    tokens: int
    """Input and output tokens, or the reservation for them."""
    nanousd: int
    """Price, or the reservation for it, in billionths of a US dollar."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UsageGroup:
    """A row of the usage report. Sums cover the calls whose usage or price is known."""

    keys: tuple[str, ...]
    """The agent's reference, the model, the tier or the day, for each grouping."""
    calls: int
    unknown: int
    """Calls whose usage the provider did not report."""
    failed: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    reasoning_tokens: int
    cost_nanousd: int
    """In billionths of a US dollar."""
    unpriced: int
    held_seconds: float

    @property
    def key(self) -> str:
        return ",".join(self.keys)


@dataclass(frozen=True, kw_only=True, slots=True)
class UsagePage:
    """A part of the usage report."""

    groups: Sequence[UsageGroup]
    total: UsageGroup
    """Of all calls of the report, those of other pages included."""
    next: str | None
    """Cursor of the next page; none in the last one."""
