"""What waits to be done in a database: one look tells all sweeps of a process."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class DueWork:
    """Whether there is any of each kind of work."""

    pulses: bool
    """Pulses that this process may start, claimed by nobody."""
    passes: bool
    claimed_pulses: bool
    """Pulses that some process runs, which may have died."""
    claimed_passes: bool
    overdue_pulses: bool
    wakes: bool
    """Deferred wakes whose time has come, or that wait for a place in the fleet."""
    routine_at: datetime | None
    """When the next routine is due, now or later."""
    leases: bool
    """Deliveries whose lease has run out."""
    messages: bool
    """Messages that are not indexed."""
    checks: bool
    """Banks to check for a due pass."""
    events: bool
    """Committed events without a number."""
    last_event: int
    """Number of the last event."""
    server_start: datetime | None
    """When the database server started, which a failover changes; None on SQLite."""
