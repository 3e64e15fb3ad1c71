"""Section `agents`, and the policy that `defaults` and each agent share."""

from typing import Any

from pydantic import Field

from circadia.records.agent import AgentPolicy, OnWake, SleepEvent, ToolGroup, WakeEvent
from circadia.records.answer import AnswerMode
from circadia.settings.coordination import CoordinationSettings
from circadia.settings.djinnbot import DjinnbotScheduleSettings
from circadia.settings.section import Section


class PolicySettings(Section):
    """What an agent may access and spend, and how its held prompts are handled."""

    upstreams: tuple[str, ...] = Field(("*",), description="Model providers that the agent may call; `*` means all.")
    mcp_servers: tuple[str, ...] = Field(("*",), description="Proxied MCP servers that it may call; `*` means all.")
    tools: tuple[ToolGroup, ...] = Field(
        ("*",),
        description="Groups of Circadia's MCP tools that the agent may see and call; `*` means all. Its model reads "
        "their descriptions with each call.",
    )
    sessions: tuple[str, ...] = Field((), description="Other sessions whose agents it may address.")
    may_wake: tuple[str, ...] = Field((), description="Agents that it may wake with `set_sleeping` or over REST.")
    may_sleep: tuple[str, ...] = Field((), description="Agents that it may put to sleep.")
    models: tuple[str, ...] | None = Field(
        None,
        description="Models that its calls may name, also in paths; the gateway refuses a call that names none. All "
        "by default.",
    )
    max_calls_per_day: int | None = Field(None, ge=0, description="Maximum model calls per UTC day.")
    max_tokens_per_day: int | None = Field(None, ge=0, description="Maximum input and output tokens per UTC day.")
    max_usd_per_day: float | None = Field(None, ge=0, description="Maximum spend per UTC day, at list prices.")
    on_wake: OnWake = Field(
        OnWake.NOTICE,
        description="Handling of a held prompt on wake: `notice` adds a line, `forward` sends it unchanged, `refresh` "
        "asks the caller to send it again.",
    )
    include_usage: bool = Field(
        True,
        description="Request usage in OpenAI streams when the caller does not, and remove the extra chunk.",
    )
    hold_max_seconds: float | None = Field(None, gt=0, description="Longest hold; by default until the wake.")
    hold_lists: bool = Field(False, description="Also hold MCP list requests.")
    abort_streams: bool = Field(False, description="Abort running model streams when the agent is put to sleep.")
    bank: str | None = Field(
        None,
        description="Bank that stores its conversations and provides its context; `{user}` stands for the end user, "
        "so that each has a separate bank.",
    )
    write_banks: tuple[str, ...] = Field(
        (), description="Other banks that its tools and REST calls may read and write."
    )
    read_banks: tuple[str, ...] = Field((), description="Banks that it may only read; may include the bound one.")
    multi_user: bool = Field(
        False,
        description="The agent serves many people: a turn without a known end user is neither captured nor given "
        "context.",
    )
    capture: bool = Field(True, description="Store turns that pass the gateway as episodes, if a bank is bound.")
    inject: bool = Field(True, description="Add context to calls that pass the gateway, if a bank is bound.")
    stable_tokens: int = Field(2_000, ge=0, description="Maximum tokens that blocks add to a call.")
    fitting_tokens: int = Field(
        1_000,
        ge=0,
        description="Maximum tokens that notes and episodes for the question add to a call.",
    )
    answer_mode: AnswerMode = Field(
        AnswerMode.HINT,
        description="How its calls use ready answers: `off` ignores them, `hint` shows them in the context, `serve` "
        "returns those that are certain.",
    )
    sleeptime_agent: bool = Field(
        False, description="Make it a sleep-time agent, which may write blocks even without `hot_edits`."
    )

    def policy(self) -> AgentPolicy:
        return AgentPolicy(**{name: getattr(self, name) for name in PolicySettings.model_fields})


class AgentSettings(PolicySettings, DjinnbotScheduleSettings):
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
        return self.coordination.stated_values() | self.stated_schedule()
