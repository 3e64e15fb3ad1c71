"""What the client returns: the server's answers, typed. Times are strings, ISO 8601 in UTC."""

from typing import Any, TypedDict


class SleepingAnswer(TypedDict):
    """An agent's sleep state."""

    sleeping: bool
    since: str
    cause: str
    actor: str
    generation: int
    held: int
    agent: str
    session: str


class AgentAnswer(TypedDict):
    """An agent and its sleep state; `policy` is none where another agent asks."""

    id: str
    name: str
    session: str
    reference: str
    description: str
    enabled: bool
    sleeping: bool
    since: str
    cause: str
    actor: str
    generation: int
    held: int
    sleep_events: list[str]
    wake_events: list[str]
    policy: dict[str, Any] | None
    in_file: bool
    created_at: str


class AgentCreatedAnswer(AgentAnswer):
    """A new agent, with the token that is shown this once."""

    token: str


class ThreadAnswer(TypedDict):
    """A thread and the names of who takes part."""

    id: str
    name: str
    session: str
    status: str
    participants: list[str]
    created_by: str
    created_at: str
    closed_at: str | None
    summary: str | None


class SessionAnswer(TypedDict):
    """A session."""

    id: str
    name: str
    status: str
    created_at: str
    closed_at: str | None
    touched_at: str
    stalled: bool


class SessionDetailAnswer(SessionAnswer):
    """A session with its agents."""

    agents: list[AgentAnswer]


class SessionCreatedAnswer(SessionAnswer):
    """A new session with its graph, the agents' tokens, and what can fall asleep and never wake."""

    agents: list[AgentCreatedAnswer]
    threads: list[ThreadAnswer]
    warnings: list[str]


MessageAnswer = TypedDict(
    "MessageAnswer",
    {
        "id": str,
        "number": int,
        "thread": str,
        "from": str,
        "content": str,
        "mentions": list[str],
        "at": str,
    },
)
"""A message that was accepted."""


class HoldAnswer(TypedDict):
    """A held call."""

    id: str
    agent: str
    session: str
    reference: str
    door: str
    what: str
    since: str
    waited_seconds: float
    phase: str
    bytes: int


class HoldListAnswer(TypedDict):
    """Held calls, and how many there are in all."""

    holds: list[HoldAnswer]
    total: int


class EventAnswer(TypedDict):
    """One thing that happened."""

    number: int
    type: str
    at: str
    session: str | None
    agent: str | None
    data: dict[str, Any]


class UsageTotalAnswer(TypedDict):
    """Sums over model calls."""

    calls: int
    unknown: int
    failed: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    reasoning_tokens: int
    cost_usd: float
    unpriced: int
    held_seconds: float


class UsageAnswer(UsageTotalAnswer):
    """Sums over one group."""

    key: str


class UsageReportAnswer(TypedDict):
    """The ledger, summed."""

    group_by: str
    usage: list[UsageAnswer]
    total: UsageTotalAnswer
