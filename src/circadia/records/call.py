"""One model call in the usage ledger."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from circadia.ids import AgentId, CallId
from circadia.records.per_call import per_call


class CallStatus(StrEnum):
    """Where a call stands; a budgeted one is reserved before it goes upstream."""

    RESERVED = "reserved"
    DONE = "done"
    FAILED = "failed"


@per_call
class Call:
    """One model call: what it used and how long it took. A count that the provider did not give is none."""

    id: CallId
    """Key."""
    at: datetime
    """When it was admitted."""
    agent_id: AgentId
    """Who called."""
    session: str
    """The agent's session."""
    agent: str
    """The agent's name; of a call of the sleep tier, whose session is empty, the name of the bank."""
    tier: str = "hot"
    """`hot`, `ready` for one that was given an answer worked out ahead, or `sleep` for a call of the sleep tier."""
    upstream: str
    """Name of the provider in the configuration."""
    endpoint: str
    """Which API: `chat_completions`, `responses`, `messages`, …"""
    model: str
    """Model that was named in the request, or in the answer where it differs."""
    status: CallStatus
    """Where it stands."""
    http_status: int | None = None
    """What the upstream answered."""
    streamed: bool = False
    """Whether it was a stream."""
    input_tokens: int | None = None
    """Tokens read, cached ones included."""
    output_tokens: int | None = None
    """Tokens written, reasoning included."""
    cached_tokens: int | None = None
    """Of the input, those read from the provider's cache."""
    reasoning_tokens: int | None = None
    """Of the output, those of reasoning."""
    reserved_tokens: int = 0
    """What a budget counts until the true usage is known."""
    reserved_nanousd: int = 0
    """What a budget counts until the true price is known, in billionths of a US dollar."""
    cost_nanousd: int | None = None
    """Price in billionths of a US dollar."""
    held_seconds: float = 0.0
    """How long it was held."""
    first_token_seconds: float | None = None
    """From admission to the first byte of the answer's body."""
    total_seconds: float | None = None
    """From admission to the end."""
    conversation: str | None = None
    """Conversation it belongs to (GATE-67)."""
    end_user: str | None = None
    """For whom the agent worked."""
    turn: bool = False
    """Whether its last item came from the user side."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentSpend:
    """What an agent used since some instant; open reservations are in it."""

    calls: int
    """Number of calls."""
    tokens: int
    """Input and output tokens, or what is reserved for them."""
    nanousd: int
    """Price, or what is reserved for it, in billionths of a US dollar."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UsageGroup:
    """A line of the usage report."""

    key: str
    """The agent's reference, the model, the tier or the day."""
    calls: int
    """Number of calls."""
    unknown: int
    """Of these, calls whose usage the provider did not tell."""
    failed: int
    """Of these, calls that failed."""
    input_tokens: int
    """Sum over the known."""
    output_tokens: int
    """Sum over the known."""
    cached_tokens: int
    """Sum over the known."""
    reasoning_tokens: int
    """Sum over the known."""
    cost_nanousd: int
    """Sum over the priced, in billionths of a US dollar."""
    unpriced: int
    """Calls with no known price."""
    held_seconds: float
    """Sum of the time held."""
