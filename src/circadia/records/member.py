"""A member of the cluster: one server process on a shared database."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from circadia.ids import MemberId
from circadia.records.session import build_reference

LEASE_SECONDS: Final = 15.0
"""Time after which a member that does not renew its lease counts as dead."""


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
    config_check: str | None = None
    """Part of a hash of its configuration, without secrets; None if its version does not write it."""
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

    @property
    def place(self) -> tuple[str, str]:
        return self.host, self.address


def find_conflicts(members: Sequence[Member]) -> Sequence[str]:
    """Return what is wrong with these live members together, each with what to do."""
    conflicts: list[str] = []
    by_config: dict[str, list[str]] = {}
    for member in members:
        if member.config_check is not None:
            by_config.setdefault(member.config_check, []).append(f"{member.address} on {member.host}")
        for other in members:
            # A dead predecessor at the same address has not renewed its lease since.
            lives = other.lease_until > member.started_at + timedelta(seconds=LEASE_SECONDS)
            if other.started_at < member.started_at and lives and other.place == member.place:
                conflicts.append(
                    f"two servers are {member.address} on {member.host}: give each machine a host name of its own"
                )
    if len(by_config) > 1:
        places = "; ".join(f"{config} at {', '.join(addresses)}" for config, addresses in by_config.items())
        conflicts.append(f"the servers run different configurations ({places}): give all the same circadia.yaml")
    return conflicts


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
