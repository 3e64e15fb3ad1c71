"""One model call in the usage ledger."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from circadia.ids import AgentId, CallId
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
