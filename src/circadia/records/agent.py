"""An agent: one identity in a session, with a token, a sleep state and a policy."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from circadia.ids import AgentId, SessionId
from circadia.records.answer import AnswerMode
from circadia.records.coordination import DEFAULT, Coordination, Setting

RESERVED: Final = frozenset({"operator", "circadia"})
"""What messages and events call people and Circadia itself, so no agent may be called so."""


class SleepEvent(StrEnum):
    """What can put an agent to sleep (GATE-02)."""

    AGENT_STARTED = "agent_started"
    REMOVED_FROM_LAST_THREAD = "removed_from_last_thread"
    LAST_THREAD_CLOSED = "last_thread_closed"


class WakeEvent(StrEnum):
    """What can wake an agent (GATE-02)."""

    ADDED_TO_ANY_THREAD = "added_to_any_thread"
    ADDED_TO_THREAD_FIRST_TIME = "added_to_thread_first_time"
    FIRST_TIME_IN_THREAD = "first_time_in_thread"
    MENTIONED = "mentioned"


class Cause(StrEnum):
    """Which door the last change of the sleep state came through (GATE-03)."""

    EVENT = "event"
    REST = "rest"
    TOOL = "tool"
    OPERATOR = "operator"
    PULSE = "pulse"


class OnWake(StrEnum):
    """What becomes of a prompt that was written before the sleep (GATE-65)."""

    NOTICE = "notice"
    FORWARD = "forward"
    REFRESH = "refresh"


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentPolicy:
    """What an agent may reach and spend, and how its calls are held. Reach lists hold names, or `*` for all."""

    upstreams: tuple[str, ...] = ("*",)
    """Model providers that it may call."""
    mcp_servers: tuple[str, ...] = ("*",)
    """Proxied MCP servers that it may call."""
    tools: tuple[str, ...] = ("*",)
    """Groups of Circadia's own tools that it is shown and may call: `threads`, `waits`, `inbox`, `memory`, `sleep`."""
    sessions: tuple[str, ...] = ()
    """Other sessions whose agents it may reach (GATE-07)."""
    may_wake: tuple[str, ...] = ()
    """Agents whose sleep it may end by `set_sleeping` or REST."""
    may_sleep: tuple[str, ...] = ()
    """Agents that it may put to sleep."""
    models: tuple[str, ...] | None = None
    """Models that its calls may name; none means all."""
    max_calls_per_day: int | None = None
    """Model calls a UTC day; none means no limit."""
    max_tokens_per_day: int | None = None
    """Input and output tokens a UTC day; none means no limit."""
    max_usd_per_day: float | None = None
    """US dollars a UTC day; none means no limit."""
    on_wake: OnWake = OnWake.NOTICE
    """What becomes of a held prompt at the wake."""
    include_usage: bool = True
    """Whether `stream_options.include_usage` is added to streams that lack it, and its chunk taken out again."""
    hold_max_seconds: float | None = None
    """Longest hold; none means until it wakes."""
    hold_lists: bool = False
    """Strict mode: MCP lists are held too."""
    abort_streams: bool = False
    """Whether sleep cuts model streams in flight."""
    bank: str | None = None
    """The bank that its conversations go to and its context comes from; `{user}` in it stands for the end user."""
    banks: tuple[str, ...] = ()
    """Other banks, or templates of banks, that its tools and REST calls may read and write."""
    read_banks: tuple[str, ...] = ()
    """Banks that it may only read, the bound one too."""
    multi_user: bool = False
    """Whether it serves many people: a turn without a known end user is then neither captured nor injected."""
    capture: bool = True
    """Whether turns that pass the gateway become episodes, where a bank is bound."""
    inject: bool = True
    """Whether calls that pass the gateway are given context, where a bank is bound."""
    stable_tokens: int = 2_000
    """Tokens that the blocks may take of each call."""
    fitting_tokens: int = 1_000
    """Tokens that notes and episodes for the question may take."""
    answers: AnswerMode = AnswerMode.HINT
    """What its calls make of answers that are ready, where a bank is bound."""
    sleeptime: bool = False
    """Whether it is a sleep-time agent: it may write blocks as a pass does, also where its bank has no `hot_edits`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Agent:
    """One identity in a session."""

    id: AgentId
    """Key; a deleted and re-made agent has another."""
    session_id: SessionId
    """Its session's key."""
    session: str
    """Its session's name."""
    name: str
    """Unique among the session's agents that are not deleted."""
    token_hash: str
    """SHA-256 of its token, in hex."""
    enabled: bool = True
    """Whether its token opens anything."""
    asleep: bool = False
    """The one boolean."""
    generation: int = 0
    """Counts the changes of `asleep`."""
    since: datetime
    """When `asleep` last changed."""
    cause: Cause = Cause.OPERATOR
    """Through which door it last changed."""
    actor: str = "operator"
    """Who changed it: an agent's name, `operator`, or the event's name."""
    sleep_events: frozenset[SleepEvent] = frozenset()
    """What puts it to sleep."""
    wake_events: frozenset[WakeEvent] = frozenset()
    """What wakes it."""
    policy: AgentPolicy = field(default_factory=AgentPolicy)
    """What it may reach and spend."""
    coordination: Coordination = DEFAULT
    """How it may be woken."""
    settings: Mapping[str, Setting] = field(default_factory=dict[str, Setting])
    """What of its coordination was set, by flat name, and where."""
    description: str = ""
    """What it is for, as other agents read it."""
    created_at: datetime
    """When it was made."""
    deleted_at: datetime | None = None
    """When it was deleted; its rows stay for the record."""

    @property
    def reference(self) -> str:
        """Return `name` in the session `default`, else `session:name`."""
        return self.name if self.session == "default" else f"{self.session}:{self.name}"
