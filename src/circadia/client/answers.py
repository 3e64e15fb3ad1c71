"""Typed answers of the server. Times are strings, ISO 8601 in UTC."""

from typing import Any, TypedDict


class SleepingAnswer(TypedDict):
    sleeping: bool
    since: str
    cause: str
    actor: str
    generation: int
    held: int
    agent: str
    session: str


class AgentAnswer(TypedDict):
    """An agent and its sleep state; `policy` is None for other agents."""

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
    """A new agent with its token, shown only once."""

    token: str


class ThreadAnswer(TypedDict):
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
    id: str
    name: str
    status: str
    created_at: str
    closed_at: str | None
    touched_at: str
    stalled: bool


class SessionDetailAnswer(SessionAnswer):
    agents: list[AgentAnswer]


class SessionCreatedAnswer(SessionAnswer):
    """A new session with its graph, the agents' tokens, and warnings about agents that may never wake."""

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


class HoldAnswer(TypedDict):
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
    holds: list[HoldAnswer]
    total: int


class EventAnswer(TypedDict):
    number: int
    type: str
    at: str
    session: str | None
    agent: str | None
    data: dict[str, Any]


class UsageTotalAnswer(TypedDict):
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
    key: str


class UsageReportAnswer(TypedDict):
    group_by: str
    usage: list[UsageAnswer]
    total: UsageTotalAnswer
