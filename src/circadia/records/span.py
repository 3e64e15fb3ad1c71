"""A span of an agent's time, and its sums by the quarter of an hour (UI-15)."""

from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple

from circadia.ids import AgentId
from circadia.records.agent import Agent
from circadia.records.pulse import FAILED

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
SLOT: Final = timedelta(minutes=15)
"""Length of the time that a sum is for."""


class SpanKind(StrEnum):
    ASLEEP = "asleep"
    AWAKE = "awake"
    HELD = "held"
    """A call that was held."""
    PULSE = "pulse"
    """An attempt of a pulse; a gate that a person or an unguarded event opens is `awake` alone."""
    WAKE = "wake"
    """The moment at which a wake request was admitted."""
    REFUSAL = "refusal"
    """The moment at which one was refused."""


MARKS: Final = frozenset({SpanKind.WAKE, SpanKind.REFUSAL})
"""Kinds without a length."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """A state of an agent that has ended, or a moment."""

    agent_id: AgentId
    session: str
    agent: str
    """The agent's name."""
    kind: SpanKind
    started_at: datetime
    ended_at: datetime | None
    """None while it lasts; such a span has no row."""
    by: str = ""
    """Who or what it came from."""
    reason: str = ""
    """Reason of a pulse or wake, cause of a sleep, or the operation of a held call."""
    outcome: str = ""
    """How it ended: the status of a pulse, `admitted` or `dropped` of a held call; the rule of a refusal."""
    ref: str = ""
    """Id of the pulse, hold or wake."""
    number: int = 0
    """Position in the table; 0 until stored."""

    @property
    def failed(self) -> bool:
        """Whether it is a pulse that did not end well."""
        return self.kind is SpanKind.PULSE and self.outcome in FAILED


class SpanPlace(NamedTuple):
    """A place among an agent's spans, which are in the order of their ends."""

    ended_at: datetime
    number: int


START: Final = SpanPlace(EPOCH, 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class SpanSum:
    """What the agents of a session did in a quarter of an hour; times in microseconds."""

    session: str
    at: datetime
    asleep: int = 0
    awake: int = 0
    held: int = 0
    pulse: int = 0
    pulses: int = 0
    """Pulses that ended then."""
    failed: int = 0
    """Those of them that did not end well."""
    wakes: int = 0
    refusals: int = 0


SUMMED: Final = tuple(field.name for field in fields(SpanSum) if field.name not in ("session", "at"))
"""The figures of a sum."""


def end_state(agent: Agent, now: datetime) -> Span:
    """Return the span of the agent's present sleep state, which ends now."""
    return Span(
        agent_id=agent.id,
        session=agent.session,
        agent=agent.name,
        kind=SpanKind.ASLEEP if agent.asleep else SpanKind.AWAKE,
        started_at=min(agent.since, now),  # a clock may be set back
        ended_at=now,
        by=agent.actor,
        reason=agent.cause.value,
    )
