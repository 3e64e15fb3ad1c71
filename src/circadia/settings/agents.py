"""Section `agents`, and the policy that `defaults` and each agent share."""

from typing import Any, Literal

from pydantic import Field, TypeAdapter

from circadia.records.agent import AgentPolicy, OnWake, SleepEvent, WakeEvent
from circadia.records.answer import AnswerMode
from circadia.records.schedule import Blackout
from circadia.settings.coordination import CoordinationSettings
from circadia.settings.schedule import ScheduleSettings
from circadia.settings.section import Section

ToolGroup = Literal["*", "threads", "waits", "inbox", "memory", "sleep"]
"""What `tools` may name."""


class PolicySettings(Section):
    """What an agent may reach and spend, and what becomes of its held prompts."""

    upstreams: tuple[str, ...] = Field(("*",), description="Model providers that the agent may call; `*` is all.")
    mcp_servers: tuple[str, ...] = Field(("*",), description="Proxied MCP servers that it may call; `*` is all.")
    tools: tuple[ToolGroup, ...] = Field(
        ("*",),
        description="Groups of Circadia's own MCP tools that it is shown and may call: `threads`, `waits`, `inbox`, "
        "`memory`, `sleep`; `*` is all. Its model reads what each tool is for with each call.",
    )
    sessions: tuple[str, ...] = Field((), description="Other sessions whose agents it may reach.")
    may_wake: tuple[str, ...] = Field((), description="Agents that it may wake by `set_sleeping` or REST.")
    may_sleep: tuple[str, ...] = Field((), description="Agents that it may put to sleep.")
    models: tuple[str, ...] | None = Field(
        None,
        description="Models that its calls may name, in paths too; a call that names none is refused. All by default.",
    )
    max_calls_per_day: int | None = Field(None, ge=0, description="Model calls a UTC day.")
    max_tokens_per_day: int | None = Field(None, ge=0, description="Input and output tokens a UTC day.")
    max_usd_per_day: float | None = Field(None, ge=0, description="US dollars a UTC day, at list prices.")
    on_wake: OnWake = Field(
        OnWake.NOTICE,
        description="What becomes of a prompt that waited: `notice` adds one line to it, `forward` sends it as it "
        "is, `refresh` asks the caller to send it again.",
    )
    include_usage: bool = Field(
        True,
        description="Ask OpenAI streams for usage where the caller did not, and take the extra chunk out.",
    )
    hold_max_seconds: float | None = Field(None, gt=0, description="Longest hold; without it, until the wake.")
    hold_lists: bool = Field(False, description="Hold MCP lists too.")
    abort_streams: bool = Field(False, description="Cut model streams in flight when the agent is put to sleep.")
    bank: str | None = Field(
        None,
        description="Bank that its conversations go to and its context comes from; `{user}` in it stands for the end "
        "user, so that each has a bank of their own.",
    )
    banks: tuple[str, ...] = Field((), description="Other banks that its tools and REST calls may read and write.")
    read_banks: tuple[str, ...] = Field((), description="Banks that it may only read, the bound one too.")
    multi_user: bool = Field(
        False, description="It serves many people: a turn without a known end user is neither captured nor injected."
    )
    capture: bool = Field(True, description="Turns that pass the gateway become episodes, where a bank is bound.")
    inject: bool = Field(True, description="Calls that pass the gateway are given context, where a bank is bound.")
    stable_tokens: int = Field(2_000, ge=0, description="Tokens that the blocks may take of each call.")
    fitting_tokens: int = Field(
        1_000, ge=0, description="Tokens that notes and episodes for the question may take of each call."
    )
    answers: AnswerMode = Field(
        AnswerMode.HINT,
        description="What its calls make of answers that are ready: `off`, `hint` shows them in the context, `serve` "
        "answers with what is sure.",
    )
    sleeptime: bool = Field(
        False, description="It is a sleep-time agent: it may write blocks where the bank has no `hot_edits`."
    )

    def policy(self) -> AgentPolicy:
        """Return the record of these settings."""
        return AgentPolicy(**{name: getattr(self, name) for name in PolicySettings.model_fields})


class AgentSettings(PolicySettings, ScheduleSettings):
    """One agent of the session `default` that the file defines."""

    token_env: str | None = Field(
        None, description="Environment variable with its token; without it, `circadia agent token` makes one."
    )
    description: str = Field("", description="What it is for, as other agents read it.")
    sleep_events: frozenset[SleepEvent] = Field(frozenset(), description="What puts it to sleep.")
    wake_events: frozenset[WakeEvent] = Field(frozenset(), description="What wakes it.")
    coordination: CoordinationSettings = Field(
        CoordinationSettings.model_validate({}), description="How it may be woken."
    )

    def stated_coordination(self) -> dict[str, Any]:
        """Return all of its coordination that the file states, its zone and blackouts too, ready for JSON."""
        stated = self.coordination.stated_values()
        if "timezone" in self.model_fields_set:
            stated["zone"] = self.timezone
        if self.model_fields_set & {"max_consecutive_skips", "pulse_max_consecutive_skips"}:
            stated["max_consecutive_skips"] = self.skips_until_alert
        if self.blackouts or self.pulse_blackouts:
            stated["blackouts"] = TypeAdapter(tuple[Blackout, ...]).dump_python(self.blackout_records(), mode="json")
        if "blackout_policies" in self.model_fields_set:
            stated["blackout_policies"] = self.blackout_policies.model_dump(mode="json")
        return stated
