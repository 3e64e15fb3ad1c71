"""A pulse: one bounded run of an agent. The row is the source of truth and the engine's outbox (WAKE-50)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from circadia.ids import AgentId, PulseId, WakeId


class PulseStatus(StrEnum):
    PENDING = "pending"
    """Admitted; waits for the engine or for the next attempt."""
    STARTING = "starting"
    """Claimed by a process under a lease."""
    RUNNING = "running"
    """Its agent runs, or its gate is open."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    SUSPENDED = "suspended"
    """Its program has stopped for now, and the agent's next wake resumes it (WAKE-84)."""
    INTERRUPTED = "interrupted"
    """Its process died, or the server stopped, and no attempts are left."""

    @property
    def is_over(self) -> bool:
        """Return whether nothing runs any more, and nothing waits to start."""
        return self is PulseStatus.SUSPENDED or not PULSE_MOVES[self]


_ENDS: Final = frozenset({
    PulseStatus.SUCCEEDED, PulseStatus.FAILED, PulseStatus.TIMED_OUT, PulseStatus.CANCELLED, PulseStatus.INTERRUPTED,
})  # fmt: skip

FAILED: Final = (PulseStatus.FAILED, PulseStatus.TIMED_OUT, PulseStatus.INTERRUPTED)
"""Final states that count as failures of the agent (WAKE-54)."""
PULSE_MOVES: Final[Mapping[PulseStatus, frozenset[PulseStatus]]] = {
    # A resident agent's pulse is never claimed: it runs from the moment its gate opens.
    PulseStatus.PENDING: frozenset({
        PulseStatus.STARTING, PulseStatus.RUNNING, PulseStatus.CANCELLED, PulseStatus.INTERRUPTED,
    }),
    # Back to pending: its lease ran out and an attempt is left.
    PulseStatus.STARTING: frozenset({PulseStatus.RUNNING, PulseStatus.PENDING, *_ENDS} - {PulseStatus.SUCCEEDED}),
    PulseStatus.RUNNING: frozenset({PulseStatus.PENDING, PulseStatus.SUSPENDED, *_ENDS}),
    # It takes no slot and has an end until it goes on.
    PulseStatus.SUSPENDED: frozenset({PulseStatus.PENDING, PulseStatus.CANCELLED}),
    **{end: frozenset[PulseStatus]() for end in _ENDS},
}  # fmt: skip


class PulseKind(StrEnum):
    """Origin of a pulse."""

    WAKE = "wake"
    """A wake request by an agent or a thread event."""
    SCHEDULE = "schedule"
    MANUAL = "manual"
    GATE = "gate"
    """A gate opened by a person, or by a resident agent's unguarded event: it counts for minutes only (WAKE-56)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pulse:
    id: PulseId
    """Also the id of the engine's job."""
    agent_id: AgentId
    agent: str
    """The agent's reference."""
    kind: PulseKind
    status: PulseStatus
    launcher: str = "resident"
    """`resident`, or a launcher of the configuration."""
    wake_id: WakeId | None = None
    """The request that it was admitted for."""
    by: str = ""
    """Who woke the agent, for display."""
    reason: str = ""
    routine: str | None = None
    attempt: int = 0
    """Number of starts, except those that a server stop interrupted."""
    epoch: int = 0
    """Fencing number: each start and takeover increments it, and writes with an older one are refused."""
    owner: str | None = None
    """The process that runs it."""
    lease_until: datetime | None = None
    """When the pulse counts as dead unless its owner renews the lease."""
    not_before: datetime | None = None
    """Earliest start."""
    prompted_at: datetime | None = None
    """When its prompt was built; later requests do not join the pulse."""
    created_at: datetime
    started_at: datetime | None = None
    """Start of the present or last attempt."""
    ended_at: datetime | None = None
    run_seconds: float = 0.0
    """Total run time of finished attempts (WAKE-53)."""
    timeout_seconds: float | None = None
    """Limit of one attempt; none means no limit."""
    detail: str = ""
    """How it ended, in words."""
    token_hash: str | None = None
    """SHA-256 of the token given to its agent; invalid once the pulse has ended."""
    root_id: str
    """First wake or message of its chain."""
    depth: int = 0
    """Wakes from the root."""
