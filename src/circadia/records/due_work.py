"""What waits to be done in a database, and which banks are checked for a due pass."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from circadia.ids import BankId


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
    expired: bool
    """Episodes whose time has passed."""
    spans: bool
    """Spans that are not in the sums."""
    events: bool
    """Committed events without a number."""
    last_event: int
    """Number of the last event."""
    server_start: datetime | None
    """When the database server started, which a failover changes; None on SQLite."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentsCheck:
    """A check of the banks that some agents are bound to."""

    number: int
    bound_name: str
    """Name of the bank, or of the template."""
    if_asleep: bool
    """Whether only banks with a backlog are checked, and only if all these agents sleep."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DueBanks:
    """The oldest checks that are due."""

    banks: Mapping[BankId, Sequence[int]]
    """The numbers of what asks for a check of each bank; none where its time has come."""
    agents: Sequence[AgentsCheck]


@dataclass(frozen=True, kw_only=True, slots=True)
class DueCheck:
    """When a bank is checked again if nothing happens before."""

    bank_id: BankId
    at: datetime | None
    """None if only an event helps."""
    has_backlog: bool

    @property
    def is_needed(self) -> bool:
        """Whether the time or an event of its agents can make it due: all else asks for a check."""
        return self.has_backlog or self.at is not None
