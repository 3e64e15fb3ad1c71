"""The authenticated caller of a request."""

from dataclasses import dataclass

from circadia.ids import PulseId
from circadia.records.agent import Agent


@dataclass(frozen=True, kw_only=True, slots=True)
class Principal:
    """The owner of a token: the operator or an agent."""

    agent: Agent | None = None
    """None means the operator."""
    pulse_id: PulseId | None = None
    """The pulse that owns the token; none for an agent's own token."""
    metrics_only: bool = False
    """The metrics token, which opens `/metrics` only."""

    @property
    def is_operator(self) -> bool:
        return self.agent is None and not self.metrics_only

    @property
    def name(self) -> str:
        """The name shown in events and rows."""
        return self.agent.reference if self.agent else "operator"
