"""A pulse: one bounded run of an agent. The row is the truth and the outbox of the engine (WAKE-50)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from circadia.ids import AgentId, PulseId, WakeId


class PulseStatus(StrEnum):
    """Where a pulse stands."""

    PENDING = "pending"
    """Admitted; it waits for the engine, or for its next attempt."""
    STARTING = "starting"
    """Taken by a process, under a lease."""
    RUNNING = "running"
    """Its agent runs, or its gate is open."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    """Its process died, or the server stopped, for the last time that is tried."""


_ENDS: Final = frozenset({
    PulseStatus.SUCCEEDED, PulseStatus.FAILED, PulseStatus.TIMED_OUT, PulseStatus.CANCELLED, PulseStatus.INTERRUPTED,
})  # fmt: skip

FAILED: Final = (PulseStatus.FAILED, PulseStatus.TIMED_OUT, PulseStatus.INTERRUPTED)
"""Ends that count as failures of the agent (WAKE-54)."""
PULSE_MOVES: Final[Mapping[PulseStatus, frozenset[PulseStatus]]] = {
    # A resident agent's pulse is never taken: it runs from the moment at which its gate opens.
    PulseStatus.PENDING: frozenset({
        PulseStatus.STARTING, PulseStatus.RUNNING, PulseStatus.CANCELLED, PulseStatus.INTERRUPTED,
    }),
    # Back to pending: its lease ran out, and there is an attempt left.
    PulseStatus.STARTING: frozenset({PulseStatus.RUNNING, PulseStatus.PENDING, *_ENDS} - {PulseStatus.SUCCEEDED}),
    PulseStatus.RUNNING: frozenset({PulseStatus.PENDING, *_ENDS}),
    **{end: frozenset[PulseStatus]() for end in _ENDS},
}  # fmt: skip
"""The allowed moves."""


class PulseKind(StrEnum):
    """What started a pulse."""

    WAKE = "wake"
    """A wake request of an agent, or of a thread event."""
    SCHEDULE = "schedule"
    """A routine."""
    MANUAL = "manual"
    """A person."""
    GATE = "gate"
    """A gate that a person, or a resident agent's unguarded event, opened: it counts for minutes only (WAKE-56)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pulse:
    """One bounded run of an agent."""

    id: PulseId
    """Key; also the engine's job."""
    agent_id: AgentId
    """Who runs."""
    agent: str
    """Its reference."""
    kind: PulseKind
    """What started it."""
    status: PulseStatus
    """Where it stands."""
    launcher: str = "resident"
    """How it runs: `resident`, or a launcher of the configuration."""
    wake_id: WakeId | None = None
    """The request that it was admitted for."""
    by: str = ""
    """Who woke it, as people read it."""
    reason: str = ""
    """What for."""
    routine: str | None = None
    """The routine that it runs."""
    attempt: int = 0
    """Starts so far, without those that a stop of the server interrupted."""
    epoch: int = 0
    """Fencing number: each start and each takeover adds one, and a writer with an older one is refused."""
    owner: str | None = None
    """The process that runs it."""
    lease_until: datetime | None = None
    """When it counts as dead unless its owner says that it lives."""
    not_before: datetime | None = None
    """When the engine may take it."""
    prompted_at: datetime | None = None
    """When its prompt was built; who asks from then on does not join it."""
    created_at: datetime
    """When it was admitted."""
    started_at: datetime | None = None
    """When its agent began to run, for the present or last attempt."""
    ended_at: datetime | None = None
    """When it ended."""
    run_seconds: float = 0.0
    """Time that its agent ran in attempts that ended (WAKE-53)."""
    timeout_seconds: float | None = None
    """How long an attempt may run; none means no limit."""
    detail: str = ""
    """How it ended, in words."""
    token_hash: str | None = None
    """SHA-256 of the token that its agent was started with; opens nothing once the pulse has ended."""
    root_id: str
    """First wake or message of its chain."""
    depth: int = 0
    """Wakes from the root."""
