"""An agent of a session, with its token, sleep state and policy."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final, Literal

from circadia.ids import AgentId, SessionId
from circadia.records.answer import AnswerMode
from circadia.records.coordination import DEFAULT, Coordination, Setting

RESERVED: Final = frozenset({"operator", "circadia"})
"""Names that messages and events use for people and for Circadia itself; no agent may have one."""


ToolGroup = Literal["*", "threads", "waits", "inbox", "memory", "sleep"]
"""A group of Circadia's own tools, or `*` for all."""


class SleepEvent(StrEnum):
    """Events that can put an agent to sleep (GATE-02)."""

    AGENT_STARTED = "agent_started"
    REMOVED_FROM_LAST_THREAD = "removed_from_last_thread"
    LAST_THREAD_CLOSED = "last_thread_closed"


class WakeEvent(StrEnum):
    """Events that can wake an agent (GATE-02)."""

    ADDED_TO_ANY_THREAD = "added_to_any_thread"
    ADDED_TO_THREAD_FIRST_TIME = "added_to_thread_first_time"
    FIRST_TIME_IN_THREAD = "first_time_in_thread"
    MENTIONED = "mentioned"


class Cause(StrEnum):
    """Source of the last change of the sleep state (GATE-03)."""

    EVENT = "event"
    REST = "rest"
    TOOL = "tool"
    OPERATOR = "operator"
    PULSE = "pulse"


class OnWake(StrEnum):
    """What the gateway does with a prompt that was written before the sleep (GATE-65)."""

    NOTICE = "notice"
    FORWARD = "forward"
    REFRESH = "refresh"


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentPolicy:
    """Access, budgets and hold behaviour of an agent. Access lists hold names, or `*` for all."""

    upstreams: tuple[str, ...] = ("*",)
    mcp_servers: tuple[str, ...] = ("*",)
    tools: tuple[str, ...] = ("*",)
    """Visible groups of Circadia's own tools: `threads`, `waits`, `inbox`, `memory`, `sleep`."""
    sessions: tuple[str, ...] = ()
    """Other sessions whose agents it may contact (GATE-07)."""
    may_wake: tuple[str, ...] = ()
    """Agents that it may wake through `set_sleeping` or REST."""
    may_sleep: tuple[str, ...] = ()
    """Agents that it may put to sleep through `set_sleeping` or REST."""
    models: tuple[str, ...] | None = None
    """None allows all models."""
    max_calls_per_day: int | None = None
    """Per UTC day; none means no limit."""
    max_tokens_per_day: int | None = None
    """Input and output tokens per UTC day; none means no limit."""
    max_usd_per_day: float | None = None
    """Per UTC day; none means no limit."""
    on_wake: OnWake = OnWake.NOTICE
    include_usage: bool = True
    """Add `stream_options.include_usage` to streams that lack it, and remove the extra chunk from the answer."""
    hold_max_seconds: float | None = None
    """None holds the call until the agent wakes."""
    hold_lists: bool = False
    """Strict mode: hold MCP list requests too."""
    abort_streams: bool = False
    """Cut model streams in flight when the agent falls asleep."""
    bank: str | None = None
    """The bank that stores its conversations and supplies its context; `{user}` is replaced by the end user."""
    write_banks: tuple[str, ...] = ()
    """Other banks, or bank templates, that its tools and REST calls may read and write."""
    read_banks: tuple[str, ...] = ()
    """Banks that it may only read; the bound bank can be one of them."""
    multi_user: bool = False
    """The agent serves many people: without a known end user, a turn is neither captured nor given context."""
    capture: bool = True
    """Store turns that pass the gateway as episodes, if a bank is bound."""
    inject: bool = True
    """Add context to calls that pass the gateway, if a bank is bound."""
    stable_tokens: int = 2_000
    """Token budget for blocks in each call."""
    fitting_tokens: int = 1_000
    """Token budget for notes and episodes that fit the question."""
    answer_mode: AnswerMode = AnswerMode.HINT
    """Use of ready answers, if a bank is bound."""
    sleeptime_agent: bool = False
    """A sleep-time agent: it may write blocks even where the bank has no `hot_edits`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Agent:
    id: AgentId
    """A recreated agent has a new id."""
    session_id: SessionId
    session: str
    name: str
    """Unique among the agents of the session that are not deleted."""
    token_hash: str
    """SHA-256 in hex."""
    enabled: bool = True
    asleep: bool = False
    generation: int = 0
    """Number of changes of `asleep`."""
    since: datetime
    """Time of the last change of `asleep`."""
    cause: Cause = Cause.OPERATOR
    """Source of the last change of `asleep`."""
    actor: str = "operator"
    """Author of the last change: an agent's name, `operator`, or the event's name."""
    sleep_events: frozenset[SleepEvent] = frozenset()
    wake_events: frozenset[WakeEvent] = frozenset()
    policy: AgentPolicy = field(default_factory=AgentPolicy)
    coordination: Coordination = DEFAULT
    settings: Mapping[str, Setting] = field(default_factory=dict[str, Setting])
    """Coordination settings that were set explicitly, by flat name."""
    description: str = ""
    """Shown to other agents."""
    created_at: datetime
    deleted_at: datetime | None = None
    """Its rows stay for the record."""

    @property
    def reference(self) -> str:
        """Return `name` in the session `default`, else `session:name`."""
        return self.name if self.session == "default" else f"{self.session}:{self.name}"
