"""A wake request and its decision. Its rows are the ledger that budgets are counted from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from circadia.ids import AgentId, MessageId, PulseId, WakeId
from circadia.records.message import Priority


class WakeReason(StrEnum):
    """Why an agent should wake now, not at its next pulse (WAKE-01)."""

    BLOCKER = "blocker"
    CRITICAL_FINDING = "critical_finding"
    USER_REQUEST = "user_request"


class WakeSource(StrEnum):
    """Origin of a wake; it determines which guardrails apply."""

    AGENT = "agent"
    """`wake_agent`, or a message of high priority."""
    THREAD = "thread"
    """A thread event that does not open a gate at once."""
    SCHEDULE = "schedule"
    PERSON = "person"


class Decision(StrEnum):
    ADMITTED = "admitted"
    """Has its own pulse."""
    COALESCED = "coalesced"
    """Joined a pulse that had not read its messages yet."""
    DEFERRED = "deferred"
    """Waits for a blocking condition to end; see `rule` and `not_before`."""
    REFUSED = "refused"
    """Blocked by a budget or loop breaker. Its message stays in the inbox."""
    EXPIRED = "expired"
    """Waited too long. Its message stays in the inbox."""
    CANCELLED = "cancelled"


FLEET: Final = "fleet"
"""Rule of a request that waits for a free pulse slot in the fleet."""
DECISION_MOVES: Final[Mapping[Decision, frozenset[Decision]]] = {
    Decision.DEFERRED: frozenset(Decision) - {Decision.DEFERRED},
    **{end: frozenset[Decision]() for end in Decision if end is not Decision.DEFERRED},
}
"""Only a deferred request is decided again."""


class Charge(StrEnum):
    """Budget state of a request (WAKE-14)."""

    NONE = "none"
    RESERVED = "reserved"
    """Counts from admission on."""
    CHARGED = "charged"
    """Its pulse has started."""
    RELEASED = "released"
    """Its pulse could not be started; it no longer counts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GuardrailCheck:
    """Result of one guardrail."""

    rule: str
    passed: bool
    limit: float | None = None
    """The setting that it compared with; none if unlimited or not a number."""
    value: float | None = None
    """Its count before this request."""
    detail: str = ""
    """Explanation, where the numbers do not suffice."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Wake:
    """A request to wake an agent."""

    id: WakeId
    at: datetime
    agent_id: AgentId
    agent: str
    """The agent's reference."""
    source: WakeSource
    sender_id: AgentId | None = None
    """Set if an agent asked."""
    sender: str
    """For display: an agent's reference, `operator`, or `schedule NAME`."""
    sender_pulse: PulseId | None = None
    """The sender's pulse at the time of the request."""
    reason: str
    """A `WakeReason`, an event or a routine."""
    priority: Priority = Priority.URGENT
    """Order among deferred requests."""
    message_id: MessageId | None = None
    """The underlying message; it reaches the inbox whatever the decision."""
    routine: str | None = None
    """The due routine."""
    decision: Decision
    rule: str | None = None
    """The guardrail that blocked it, if any."""
    detail: str = ""
    """Explanation in words."""
    not_before: datetime | None = None
    """Deferred: latest time of the next check; refused: end of the blocking condition, if known."""
    expires_at: datetime | None = None
    """Deferred: when it expires to an inbox item."""
    decided_at: datetime
    """Time of the present decision."""
    charge: Charge = Charge.NONE
    pulse_id: PulseId | None = None
    """The pulse that it started or joined."""
    root_id: str
    """First wake or message of its chain."""
    parent_id: str | None = None
    """The wake that started the sender's pulse."""
    depth: int = 1
    """Wakes from the root to this one."""
    key: str | None = None
    """Idempotency key; unique per sender (WAKE-03)."""
    overridden_by: str | None = None
    """The person who overrode the guardrails, with the reason (WAKE-18)."""
    timeout_seconds: float | None = None
    """Requested pulse limit; none means that of the agent or routine."""
    trace: Sequence[GuardrailCheck] = field(default_factory=tuple[GuardrailCheck, ...])
    """Guardrail results, in order."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GuardrailCounts:
    """Ledger counts for the admission of one request."""

    wakes_today: int
    """Counted wakes of the target in its day."""
    by_sender_today: int
    """Those requested by the sender."""
    of_sender_today: int
    """Counted wakes of the sender that the target requested, in the same time."""
    last_wake_at: datetime | None
    """Admission time of the target's last counted wake."""
    asked_in_session: int
    """Counted wakes that the sender requested in its present pulse or waking period."""
    visits: int
    """Counted wakes of the target in the chain."""
    joinable: PulseId | None
    """A pulse of the target that has not read its messages yet."""
    under_way: int
    """Pulses of the target that are starting or running."""
    open_pulses: int
    """Pulses of the target that are pending, starting or running."""
    run_seconds_today: float
    """Total run time of the target's pulses in its day, running ones included."""
    failures: int = 0
    """Consecutive failed pulses of the target up to its last one, if requested."""
    failed_at: datetime | None = None
    """End of the last failed pulse."""
    fleet_open: int
    """Open pulses of all agents that a wake, a routine or a person started."""
    fleet_wakes_today: int
    """Counted wakes of all agents in the UTC day."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WaitingAgent:
    agent_id: AgentId
    pressing: int
    """Rank of its most urgent request, increased by one per ageing period."""
    since: datetime
    """Time of its oldest deferred request."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WakeCount:
    """Number of wake requests between two agents with one decision."""

    sender: str
    """For display."""
    agent: str
    """Reference of the target."""
    decision: Decision
    count: int


def matches_override(wake: Wake, *, override: bool) -> bool:
    """Return whether a stored request fits a repeated one with, or without, an override.

    An override that was not needed is not recorded; but a request with an override is never refused, nor deferred
    without a record.
    """
    if wake.overridden_by is not None or not override:
        return override == (wake.overridden_by is not None)
    return wake.decision in (Decision.ADMITTED, Decision.COALESCED)
