"""Whoever calls: an agent, or a person with the operator's token or one of their own."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from circadia.ids import PulseId
from circadia.records.agent import Agent


class AccessRole(StrEnum):
    OPERATOR = "operator"
    VIEWER = "viewer"


@dataclass(frozen=True, kw_only=True, slots=True)
class AccessToken:
    name: str
    role: AccessRole
    token_hash: str
    created_at: datetime
    created_by: str

    @property
    def person(self) -> str:
        """The name shown in events and rows. No agent has such a name: theirs have no slash."""
        return f"{self.role.value}/{self.name}"


OPERATOR = "operator"
"""Name of whoever has the operator's token, and of people in general to agents."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Principal:
    """The owner of a token: a person or an agent."""

    agent: Agent | None = None
    """None means a person."""
    pulse_id: PulseId | None = None
    """The pulse that owns the token; none for an agent's own token."""
    access: AccessToken | None = None
    """The token of a person; none for the operator's token of the server."""
    metrics_only: bool = False
    """The metrics token, which opens `/metrics` only."""

    @property
    def is_operator(self) -> bool:
        """Whether it sees everything. It may also change everything unless it is a viewer, which no door lets act."""
        return self.agent is None and not self.metrics_only

    @property
    def zone(self) -> str:
        """The IANA time zone of an agent's days; a person's are not known."""
        return "UTC" if self.agent is None else self.agent.coordination.zone

    @property
    def role(self) -> str:
        """`agent`, or a person's `operator` or `viewer`."""
        if self.agent is not None:
            return "agent"
        return OPERATOR if self.access is None else self.access.role.value

    @property
    def is_viewer(self) -> bool:
        return self.access is not None and self.access.role is AccessRole.VIEWER

    @property
    def name(self) -> str:
        """The name shown in events and rows."""
        if self.agent is not None:
            return self.agent.reference
        return OPERATOR if self.access is None else self.access.person
