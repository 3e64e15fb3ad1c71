"""A wake request: one ask to wake an agent, and what was decided. Its rows are the ledger that budgets count."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from circadia.ids import AgentId, MessageId, PulseId, WakeId
from circadia.records.message import Priority


class WakeReason(StrEnum):
    """Why somebody is to be woken now and not at its next pulse (WAKE-01)."""

    BLOCKER = "blocker"
    CRITICAL_FINDING = "critical_finding"
    USER_REQUEST = "user_request"


class WakeSource(StrEnum):
    """What asked for the wake; it says which guardrails apply."""

    AGENT = "agent"
    """Another agent: `wake_agent`, or a message of high priority."""
    THREAD = "thread"
    """An event of a thread that does not open a gate at once."""
    SCHEDULE = "schedule"
    """A routine of the agent's schedule."""
    PERSON = "person"
    """The operator."""


class Decision(StrEnum):
    """What became of a request."""

    ADMITTED = "admitted"
    """It has a pulse of its own."""
    COALESCED = "coalesced"
    """It joined a pulse that had not begun to read."""
    DEFERRED = "deferred"
    """It waits for something to end; see `rule` and `not_before`."""
    REFUSED = "refused"
    """A budget or a loop breaker is against it. Its message is in the inbox."""
    EXPIRED = "expired"
    """It waited too long. Its message is in the inbox."""
    CANCELLED = "cancelled"
    """Somebody took it back."""


DECISION_MOVES: Final[Mapping[Decision, frozenset[Decision]]] = {
    Decision.DEFERRED: frozenset(Decision) - {Decision.DEFERRED},
    **{each: frozenset[Decision]() for each in Decision if each is not Decision.DEFERRED},
}
"""The allowed moves: only a deferred request is decided again."""


class Charge(StrEnum):
    """Where a request stands with the budgets (WAKE-14)."""

    NONE = "none"
    RESERVED = "reserved"
    """Counts from its admission on."""
    CHARGED = "charged"
    """Its pulse has started."""
    RELEASED = "released"
    """Its pulse could not be started, so it counts no more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GuardrailCheck:
    """What one guardrail said."""

    rule: str
    """The guardrail's name."""
    passed: bool
    """Whether it has nothing against the wake."""
    limit: float | None = None
    """The setting that it compared with; none means unlimited or not a number."""
    value: float | None = None
    """What it counted, before this request."""
    detail: str = ""
    """In words, where a number says too little."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Wake:
    """One ask to wake an agent."""

    id: WakeId
    """Key."""
    at: datetime
    """When it was asked."""
    agent_id: AgentId
    """Whom to wake."""
    agent: str
    """Its reference."""
    source: WakeSource
    """What asked."""
    sender_id: AgentId | None = None
    """The agent that asked."""
    sender: str
    """Who asked, as people read it: an agent's reference, `operator`, `schedule NAME`."""
    sender_pulse: PulseId | None = None
    """The pulse in which the sender asked."""
    reason: str
    """One of `WakeReason`, or the event, or the routine."""
    priority: Priority = Priority.URGENT
    """Place among deferred requests."""
    message_id: MessageId | None = None
    """The message behind it, in the inbox whatever is decided."""
    routine: str | None = None
    """The routine that is due."""
    decision: Decision
    """What became of it."""
    rule: str | None = None
    """The guardrail that decided, if one was against it."""
    detail: str = ""
    """Why, in words."""
    not_before: datetime | None = None
    """Deferred: when it is looked at again at the latest; refused: when what is in the way ends, if that is known."""
    expires_at: datetime | None = None
    """Deferred: when it expires to its inbox item."""
    decided_at: datetime
    """When the present decision was made."""
    charge: Charge = Charge.NONE
    """Where it stands with the budgets."""
    pulse_id: PulseId | None = None
    """The pulse that it started or joined."""
    root_id: str
    """First wake or message of its chain."""
    parent_id: str | None = None
    """The wake behind the pulse in which it was asked."""
    depth: int = 1
    """Wakes from the root to this one."""
    key: str | None = None
    """Idempotency key; unique for its sender (WAKE-03)."""
    overridden_by: str | None = None
    """The person who let it pass the guardrails, with the reason (WAKE-18)."""
    timeout_seconds: float | None = None
    """Longest pulse that was asked for; none means the limit of the agent, or of the routine."""
    trace: Sequence[GuardrailCheck] = field(default_factory=tuple[GuardrailCheck, ...])
    """What each guardrail said, in order."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GuardrailCounts:
    """What the ledger counts at one moment for one request."""

    wakes_today: int
    """Counted wakes of the target in its day."""
    by_sender_today: int
    """Of these, those that the sender asked for."""
    of_sender_today: int
    """Counted wakes of the sender that the target asked for, in the same time."""
    last_wake_at: datetime | None
    """When a wake of the target was last admitted that counts."""
    asked_in_session: int
    """Counted wakes that the sender asked for in its present pulse or time awake."""
    visits: int
    """Counted wakes of the target in the chain."""
    joinable: PulseId | None
    """A pulse of the target that has not read its messages yet."""
    under_way: int
    """Pulses of the target that are starting or running."""
    open_pulses: int
    """Pulses of the target that are pending, starting or running."""
    run_seconds_today: float
    """Time that the target's pulses have run in its day, the present ones too."""
    failures: int = 0
    """How many of the target's last pulses failed in a row, if that was asked for."""
    failed_at: datetime | None = None
    """When the newest of them ended."""
    fleet_open: int
    """Open pulses of all agents that a wake, a routine or a person started."""
    fleet_wakes_today: int
    """Counted wakes of all agents in the UTC day."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WaitingAgent:
    """An agent with deferred requests."""

    agent_id: AgentId
    """The agent."""
    pressing: int
    """Rank of the most pressing one, with a step for each stretch of time that it has waited."""
    since: datetime
    """When the oldest was asked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WakeCount:
    """How often one asked to wake another, with one decision."""

    sender: str
    """Who asked, as people read it."""
    agent: str
    """Reference of the target."""
    decision: Decision
    """What became of the requests."""
    count: int
    """Their number."""


def matches_override(wake: Wake, *, override: bool) -> bool:
    """Return whether a stored request may have been asked for with an override, or without one.

    An override that was not needed is not recorded; but with one nothing is refused, or deferred without a record.
    """
    if wake.overridden_by is not None or not override:
        return override == (wake.overridden_by is not None)
    return wake.decision in (Decision.ADMITTED, Decision.COALESCED)
