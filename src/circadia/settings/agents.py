"""Section `agents`."""

from typing import Any

from pydantic import Field

from circadia.records.agent import DEFAULT_WAKE_EVENTS, AgentPolicy, SleepEvent, WakeEvent
from circadia.records.coordination import WakeRules
from circadia.settings.djinnbot import DjinnbotScheduleSettings
from circadia.settings.section import Section


class CoordinationSettings(WakeRules, Section):
    """How the agent may be woken."""


class AgentSettings(AgentPolicy, DjinnbotScheduleSettings):
    """An agent of the session `default` that the file defines."""

    token_env: str | None = Field(
        None, description="Environment variable with its token; without it, `circadia agents token` makes one."
    )
    description: str = Field("", description="Purpose of the agent, shown to other agents.")
    sleep_events: frozenset[SleepEvent] = Field(frozenset(), description="Events that put it to sleep.")
    wake_events: frozenset[WakeEvent] = Field(DEFAULT_WAKE_EVENTS, description="Events that wake it.")
    coordination: CoordinationSettings = Field(CoordinationSettings.model_validate({}), description="Wake settings.")

    def list_policy(self) -> dict[str, object]:
        """Return the values of its policy."""
        return {key: getattr(self, key) for key in AgentPolicy.model_fields}

    def stated_coordination(self) -> dict[str, Any]:
        """Return the coordination that the file states, including zone and blackouts, ready for JSON."""
        return self.coordination.model_dump(mode="json", exclude_unset=True) | self.stated_schedule()
