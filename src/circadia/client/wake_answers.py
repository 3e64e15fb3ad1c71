"""Typed answers about wakes. Times are strings, ISO 8601 in UTC."""

from typing import Any, NotRequired, TypedDict

WakeAnswer = TypedDict(
    "WakeAnswer",
    {
        "id": str,
        "at": str,
        "agent": str,
        "source": str,
        "from": str,
        "sender_pulse": str | None,
        "reason": str,
        "priority": str,
        "message": str | None,
        "routine": str | None,
        "decision": str,
        "rule": str | None,
        "detail": str,
        "not_before": str | None,
        "expires_at": str | None,
        "decided_at": str,
        "charge": str,
        "pulse": str | None,
        "root": str,
        "parent": str | None,
        "depth": int,
        "overridden_by": str | None,
    },
)


class GuardrailCheckAnswer(TypedDict):
    rule: str
    passed: bool
    limit: float | None
    value: float | None
    detail: str


class WakeDetailAnswer(WakeAnswer):
    trace: list[GuardrailCheckAnswer]


class WakeListItemAnswer(WakeAnswer):
    """A wake request in a list, with guardrail checks if requested."""

    trace: NotRequired[list[GuardrailCheckAnswer]]


class BudgetAnswer(TypedDict):
    limit: float | None
    used: float
    left: float | None


class BudgetsAnswer(TypedDict):
    session: BudgetAnswer | None
    day: BudgetAnswer
    pair: BudgetAnswer | None


class OutcomeAnswer(TypedDict):
    """The outcome of a message and of its wake request."""

    to: str
    message: str | None
    wake: str | None
    decision: str | None
    rule: str | None
    detail: str
    retry_at: str | None
    pulse: str | None
    root: str | None
    budgets: BudgetsAnswer
    summary: str


class WakeOutcomeAnswer(TypedDict):
    to: str
    message: str | None
    wake: str | None
    decision: str | None
    rule: str | None
    detail: str
    retry_at: str | None
    pulse: str | None
    root: str | None
    budgets: BudgetsAnswer
    summary: str
    trace: list[GuardrailCheckAnswer]
    dry_run: bool


class WakeListAnswer(TypedDict):
    wakes: list[WakeListItemAnswer]
    before: str | None


WakeMatrixLine = TypedDict(
    "WakeMatrixLine",
    {
        "from": str,
        "to": str,
        "decisions": dict[str, int],
        "total": int,
    },
)


class ChainNodeAnswer(TypedDict):
    kind: str
    id: str
    at: str
    agent: str
    by: str
    state: str
    detail: str
    depth: int
    parent: str | None


class ChainAnswer(TypedDict):
    root: str
    wakes: int
    pulses: int
    messages: int
    depth: int
    nodes: list[ChainNodeAnswer]


class WakeStatsAnswer(TypedDict):
    """An agent's wakes in its current day, against its limits; None means no limit, or never."""

    agent: str
    wakes_today: int
    max_wakes_per_day: int | None
    cooldown_seconds: float | None
    last_wake_time: int | None
    max_daily_session_minutes: float | None
    date: str
    timezone: str
    resets_at: str
    cooldown_remaining_seconds: float
    session_minutes_today: float
    per_source: dict[str, int]
    refused_today: dict[str, int]
    deferred: int
    active_pulses: int


class SettingAnswer(TypedDict):
    value: Any
    source: str
    at: str | None


class CoordinationAnswer(TypedDict):
    agent: str
    settings: dict[str, SettingAnswer]


InboxItemAnswer = TypedDict(
    "InboxItemAnswer",
    {
        "id": str,
        "from": str,
        "content": str,
        "type": str,
        "priority": str,
        "at": str,
        "thread": str,
        "thread_name": str,
        "mentioned": bool,
        "reply_to": str | None,
        "root": str | None,
        "depth": int,
        "state": str,
        "until": str | None,
        "pulse": str | None,
        "seen_at": str | None,
        "ended_at": str | None,
    },
)


class InboxAnswer(TypedDict):
    agent: str
    counts: dict[str, int]
    messages: list[InboxItemAnswer]
    after: str | None


class AckResultAnswer(TypedDict):
    message: str
    state: str
    changed: bool


class SnoozeResultAnswer(TypedDict):
    message: str
    until: str


class SentItemAnswer(TypedDict):
    id: str
    to: str
    content: str
    type: str
    priority: str
    at: str
    thread: str
    thread_name: str
    reply_to: str | None
    state: str
    seen_at: str | None
    ended_at: str | None


class SentAnswer(TypedDict):
    messages: list[SentItemAnswer]
    before: str | None


class PulseAnswer(TypedDict):
    id: str
    agent: str
    kind: str
    status: str
    launcher: str
    wake: str | None
    by: str
    reason: str
    routine: str | None
    attempt: int
    epoch: int
    created_at: str
    not_before: str | None
    started_at: str | None
    ended_at: str | None
    run_seconds: float
    timeout_seconds: float | None
    detail: str
    root: str
    depth: int


class PulseListAnswer(TypedDict):
    pulses: list[PulseAnswer]
    before: str | None


class RoutineAnswer(TypedDict):
    name: str
    instructions: str
    every_seconds: int | None
    anchor: str | None
    offset_seconds: int
    cron: str | None
    at: list[str]
    zone: str
    jitter_seconds: int
    stagger_seconds: int
    timeout_seconds: float | None
    enabled: bool
    blackout_policy: str | None
    misfire_grace_seconds: int | None
    next_at: str | None
    deferred_from: str | None
    last_at: str | None
    skips: int
    missed: int


class BlackoutAnswer(TypedDict):
    type: str
    label: str
    start_time: str | None
    end_time: str | None
    weekdays: list[str] | None
    start: str | None
    end: str | None


class OccurrenceAnswer(TypedDict):
    at: str
    routine: str
    policy: str
    runs_at: str | None


class SpanAnswer(TypedDict):
    """A time span of overlapping or adjacent blackouts."""

    start: str
    end: str
    labels: list[str]


class ScheduleAnswer(TypedDict):
    """An agent's schedule, and its occurrences in a time window."""

    agent: str
    zone: str
    routines: list[RoutineAnswer]
    blackouts: list[BlackoutAnswer]
    since: str
    until: str
    occurrences: list[OccurrenceAnswer]
    spans: list[SpanAnswer]
    complete: bool
