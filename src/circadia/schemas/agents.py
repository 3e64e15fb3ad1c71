"""Agents of a session, their sleep state and wake settings, in answers."""

from datetime import datetime
from typing import Any

from pydantic import AliasChoices, Field

from circadia.records.agent import AgentPolicy, Cause, SleepEvent, WakeEvent
from circadia.records.coordination import SettingSource
from circadia.schemas.view import SettingsView, View


class NextWakeView(View):
    """What will wake an agent next, if nothing comes before."""

    at: datetime = Field(description="Time.")
    by: str = Field(description="`routine NAME`, or `deferred wake by SENDER`.", examples=["routine nightly"])


class AgentState(View):
    """An agent's sleep state."""

    name: str = Field(description="Name, unique in the session.", examples=["writer"])
    session: str = Field(description="Name of the session.", examples=["default"])
    reference: str = Field(description="`name` in the session `default`, else `session:name`.", examples=["writer"])
    enabled: bool = Field(description="Whether its token is valid.")
    sleeping: bool = Field(
        validation_alias=AliasChoices("sleeping", "asleep"), description="Whether the agent is asleep."
    )
    since: datetime = Field(description="When the sleep state last changed.")
    cause: Cause = Field(description="Interface of the last change.")
    actor: str = Field(description="Who made the last change.", examples=["operator", "mentioned by lead"])
    next: NextWakeView | None = Field(description="What wakes it next; null if nothing that is known.")
    held: int = Field(description="Number of its held calls.")


class AgentView(AgentState, SettingsView):
    """An agent and its sleep state."""

    id: str = Field(description="Unique id; not reused with the name.", examples=["agt_0cwd…"])
    description: str = Field(description="Purpose.")
    generation: int = Field(description="Number of changes so far.")
    sleep_events: list[SleepEvent] = Field(description="Events that put it to sleep.")
    wake_events: list[WakeEvent] = Field(description="Events that wake it.")
    policy: AgentPolicy | None = Field(description="What it may access and spend; null if another agent asks.")
    in_file: bool = Field(
        description="Whether the configuration file defines it. If so, each start and each change of the file sets "
        "its description, events and policy."
    )
    created_at: datetime = Field(description="Time of creation.")


class AgentCreated(AgentView):
    """A new agent with its token."""

    token: str = Field(description="Token, shown only once; the server stores only its hash.")


class AgentList(View):
    """The agents of a session."""

    agents: list[AgentView] = Field(description="Sorted by name.")
    next: str | None = Field(None, description="`after` of the next page; null in the last one.")


class AgentStateView(AgentState):
    """An agent's sleep state, and whether a pulse of it is under way."""

    pulsing: bool = Field(description="Whether a pulse of it has not ended.")


class AgentStateList(View):
    """The sleep states of agents."""

    agents: list[AgentStateView] = Field(description="Sorted by session and name.")
    next: str | None = Field(None, description="`after` of the next page; null in the last one.")


class AgentToken(View):
    """A new token."""

    agent: str = Field(description="Reference of the agent: `name` or `session:name`.", examples=["writer"])
    token: str = Field(description="New token, shown only once; the old one is no longer valid.")


class SleepingView(View):
    """An agent's sleep state."""

    sleeping: bool = Field(
        validation_alias=AliasChoices("sleeping", "asleep"), description="Whether the agent is asleep."
    )
    since: datetime = Field(description="When the sleep state last changed.")
    cause: Cause = Field(description="Interface of the last change.")
    actor: str = Field(description="Who made the last change.", examples=["operator"])
    generation: int = Field(description="Number of changes so far.")
    held: int = Field(description="Number of its held calls.")
    unconfirmed: list[str] = Field(
        default=[],
        description=(
            "Ids of gateways that have not confirmed within 100 ms that it sleeps; they may send its calls for up to "
            "a second more. Empty for GET."
        ),
    )
    agent: str = Field(validation_alias=AliasChoices("agent", "name"), description="Name.", examples=["writer"])
    session: str = Field(description="Name of the session.", examples=["default"])
    pulse: str | None = Field(
        None, description="After a wake, the pulse of an agent with a launcher: it starts soon, or runs already."
    )
    unread: list[str] = Field(
        default=[],
        description="After somebody else put it to sleep: ids of mentions that it has not seen. They do not wake it.",
    )
    alarm: str | None = Field(None, description="After it fell asleep by its own wish: name of the alarm that it set.")


class SleepingList(View):
    """The sleep states after the change."""

    agents: list[SleepingView] = Field(description="Sleep states in the order of the request.")


class SettingView(View):
    """A setting and its source."""

    value: Any = Field(description="Current value; null means no limit.")
    source: SettingSource = Field(description="Source of the value: `default`, `file` or `patch`.")
    at: datetime | None = Field(description="When it was set; null for a default.")


class CoordinationView(SettingsView):
    """The wake settings of an agent."""

    etag: str = Field(description="Entity tag of the settings, as in the header `ETag`.")
    agent: str = Field(description="Reference of the agent: `name` or `session:name`.", examples=["writer"])
    settings: dict[str, SettingView] = Field(
        description="Settings by flat name.",
        examples=[{"wake_guardrails.max_wakes_per_day": {"value": 4, "source": "patch", "at": "2026-01-31T12:00:00Z"}}],
    )
