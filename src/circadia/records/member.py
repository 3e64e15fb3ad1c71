"""A member of the cluster: one server process on a shared database."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from circadia.ids import MemberId
from circadia.records.session import build_reference


class Role(StrEnum):
    """What a process does: serve calls, run pulses, passes and sweeps, or both."""

    ALL = "all"
    GATEWAY = "gateway"
    WORKER = "worker"


@dataclass(frozen=True, kw_only=True, slots=True)
class Member:
    id: MemberId
    role: Role
    version: str
    schema: str | None = None
    """Number of the newest schema that it knows."""
    host: str
    """Name of its machine."""
    address: str
    """URL at which the machine itself reaches it."""
    token_check: str
    """Parts of hashes of the operator's tokens, of which any two members share one."""
    started_at: datetime
    lease_until: datetime
    """It counts as dead from then on, unless it renews its lease."""
    connections: int = 0
    """Maximum number of connections to PostgreSQL that it opens."""
    holds: int = 0
    running: int = 0
    """Pulses and passes that it runs."""
    leads: bool = False
    """Whether it does the work that one process at a time does."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MemberHolds:
    """The calls of one agent that one member holds."""

    member_id: MemberId
    address: str
    agent: str
    session: str
    holds: int

    @property
    def reference(self) -> str:
        """`name` in the session `default`, else `session:name`."""
        return build_reference(self.session, self.agent)
