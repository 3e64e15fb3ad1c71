"""Section `agents`."""

from typing import Any

from pydantic import Field, TypeAdapter

from circadia.records.agent import AgentPolicy, SleepEvent, WakeEvent
from circadia.records.coordination import WakeRules
from circadia.records.schedule import Blackout
from circadia.settings.schedule import ScheduleSettings
from circadia.settings.section import Section


class CoordinationSettings(WakeRules, Section):
    """How the agent may be woken."""


class AgentSettings(AgentPolicy, ScheduleSettings):
    """An agent of the session `default` that the file defines."""

    token_env: str | None = Field(
        None, description="Environment variable with its token; without it, `circadia agents token` makes one."
    )
    description: str = Field("", description="Purpose of the agent, shown to other agents.")
    sleep_events: frozenset[SleepEvent] = Field(frozenset(), description="Events that put it to sleep.")
    wake_events: frozenset[WakeEvent] = Field(frozenset(), description="Events that wake it.")
    coordination: CoordinationSettings = Field(CoordinationSettings.model_validate({}), description="Wake settings.")

    def stated_coordination(self) -> dict[str, Any]:
        """Return the coordination that the file states, including zone and blackouts, ready for JSON."""
        stated = self.coordination.model_dump(mode="json", exclude_unset=True)
        if "timezone" in self.model_fields_set:
            stated["zone"] = self.timezone
        if self.model_fields_set & {"max_consecutive_skips", "pulse_max_consecutive_skips"}:
            stated["max_consecutive_skips"] = self.skips_until_alert
        if self.blackouts or self.pulse_blackouts:
            stated["blackouts"] = TypeAdapter(tuple[Blackout, ...]).dump_python(self.blackout_records(), mode="json")
        if "blackout_policies" in self.model_fields_set:
            stated["blackout_policies"] = self.blackout_policies.model_dump(mode="json")
        return stated
