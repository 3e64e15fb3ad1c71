"""Who stands at a door."""

from dataclasses import dataclass

from circadia.ids import PulseId
from circadia.records.agent import Agent


@dataclass(frozen=True, kw_only=True, slots=True)
class Principal:
    """The owner of a token: the operator, or one agent."""

    agent: Agent | None = None
    """The agent; none means the operator."""
    pulse_id: PulseId | None = None
    """The pulse whose token it is; none for an agent's own token."""
    metrics_only: bool = False
    """Whether this is the metrics token, which opens `/metrics` alone."""

    @property
    def is_operator(self) -> bool:
        """Whether every door is open."""
        return self.agent is None and not self.metrics_only

    @property
    def name(self) -> str:
        """Return the name that events and rows show."""
        return self.agent.reference if self.agent else "operator"
