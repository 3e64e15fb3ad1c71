"""An agent of a session, with its token, sleep state and policy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    FailFast,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StringConstraints,
    field_validator,
    model_validator,
)

from circadia.ids import AgentId, SessionId
from circadia.records.answer import AnswerMode
from circadia.records.coordination import DEFAULT, Coordination, Setting
from circadia.records.session import build_reference

RESERVED: Final = frozenset({"operator", "user", "circadia"})
"""Names that messages and events use for people and for Circadia itself; no agent may have one."""
MAX_COUNT: Final = 2**53
"""Largest whole number that every JSON reader reads exactly (RFC 8259, section 6)."""
MAX_AMOUNT: Final = 10.0**9
"""Largest number of seconds or dollars."""
MAX_LAYERS: Final = 8
"""Most banks of one agent: each call searches all of them."""


class FirstMistake(FailFast):
    """Stops the validation of a list at its first mistake: a body can hold half a million."""

    def __hash__(self) -> int:
        """Return a hash, which a type that may be null needs."""
        return hash(self.fail_fast)


Name = Annotated[str, StringConstraints(max_length=200)]
"""A name or a reference; nothing has a longer one."""
AccessList = Annotated[tuple[Name, ...], FirstMistake()]
"""Names that a policy grants, or `*`."""
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


DEFAULT_WAKE_EVENTS: Final = frozenset({WakeEvent.MENTIONED})
"""What wakes a new agent whose events are not stated (WAKE-88)."""


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


class AgentPolicy(BaseModel):
    """What an agent may access and spend, and how its held prompts are handled."""

    model_config = ConfigDict(frozen=True, json_schema_serialization_defaults_required=True)

    upstreams: AccessList = Field(
        default=("*",), description="Model providers that the agent may call; `*` means all.", examples=[["openai"]]
    )
    mcp_servers: AccessList = Field(
        default=("*",), description="Proxied MCP servers that it may call; `*` means all.", examples=[["*"]]
    )
    tools: Annotated[tuple[ToolGroup, ...], FirstMistake()] = Field(
        default=("*",),
        description="Groups of Circadia's MCP tools that the agent may see and call; `*` means all. Its model reads "
        "their descriptions with each call.",
    )
    sessions: AccessList = Field(default=(), description="Other sessions whose agents it may address.")
    may_wake: AccessList = Field(
        default=(), description="Agents that it may wake with `set_sleeping` or over REST.", examples=[["writer"]]
    )
    may_sleep: AccessList = Field(default=(), description="Agents that it may put to sleep.")
    models: AccessList | None = Field(
        default=None,
        description="Models that its calls may name, also in paths; the gateway refuses a call that names none. All "
        "by default.",
    )
    max_calls_per_day: StrictInt | None = Field(
        default=None, ge=0, le=MAX_COUNT, description="Maximum model calls per UTC day."
    )
    max_tokens_per_day: StrictInt | None = Field(
        default=None, ge=0, le=MAX_COUNT, description="Maximum input and output tokens per UTC day."
    )
    max_usd_per_day: StrictFloat | None = Field(
        default=None, ge=0, le=MAX_AMOUNT, description="Maximum spend per UTC day, at list prices."
    )
    on_wake: OnWake = Field(
        default=OnWake.NOTICE,
        description="Handling of a held prompt on wake: `notice` adds a line, `forward` sends it unchanged, `refresh` "
        "asks the caller to send it again.",
    )
    include_usage: StrictBool = Field(
        default=True,
        description="Request usage in OpenAI streams when the caller does not, and remove the extra chunk.",
    )
    hold_max_seconds: StrictFloat | None = Field(
        default=None, gt=0, le=MAX_AMOUNT, description="Longest hold; by default until the wake."
    )
    hold_lists: StrictBool = Field(default=False, description="Also hold MCP list requests.")
    own_routines: StrictInt = Field(
        default=0, ge=0, le=100, description="Routines that the agent may keep by itself; it sees their tool if any."
    )
    own_routine_min_seconds: StrictInt = Field(
        default=900, ge=60, le=30 * 86_400, description="Shortest interval of such a routine."
    )
    abort_streams: StrictBool = Field(
        default=False, description="Abort running model streams when the agent is put to sleep."
    )
    approve_tools: AccessList = Field(
        default=(),
        description="Tools whose calls wait for a person's approval: `tool`, `server/tool`, `server/*` or `*`. The "
        "server of Circadia's own tools is `circadia`.",
        examples=[["github/merge_pull_request"]],
    )
    approve_models: AccessList = Field(
        default=(),
        description="Models whose calls wait for a person's approval; `*` means all. A call that names no model waits "
        "too.",
        examples=[["o3-pro"]],
    )
    approve_above_usd: StrictFloat | None = Field(
        default=None,
        ge=0,
        le=MAX_AMOUNT,
        description="Highest price of a model call without a person's approval: its worst case at list prices. A call "
        "without a known price waits too.",
    )
    approval_seconds: StrictFloat = Field(
        default=86_400.0,
        gt=0,
        le=MAX_AMOUNT,
        description="How long a call waits for approval, and an approval for its call.",
    )
    resume_seconds: StrictFloat | None = Field(
        default=None,
        gt=0,
        le=MAX_AMOUNT,
        description="How long a streamed model answer goes on, and is kept, for a caller whose connection broke; not "
        "at all by default.",
    )
    bank: Name | None = Field(
        default=None,
        description="Bank that stores its conversations and provides its context; `{user}` stands for the end user, "
        "so that each has a separate bank.",
        examples=["support-{user}"],
    )
    banks: Annotated[tuple[Name, ...], FirstMistake()] = Field(
        default=(),
        max_length=MAX_LAYERS,
        description="Several banks in order, instead of `bank`. The first is the `bank`; the others are read for its "
        "context and by its tools.",
        examples=[["me-{user}", "project", "team"]],
    )
    write_banks: AccessList = Field(
        default=(), description="Other banks that its tools and REST calls may read and write."
    )
    read_banks: AccessList = Field(default=(), description="Banks that it may only read; may include the bound one.")
    multi_user: StrictBool = Field(
        default=False,
        description="The agent serves many people: a turn without a known end user is neither captured nor given "
        "context.",
    )
    capture: StrictBool = Field(
        default=True, description="Store turns that pass the gateway as episodes, if a bank is bound."
    )
    inject: StrictBool = Field(
        default=True, description="Add context to calls that pass the gateway, if a bank is bound."
    )
    stable_tokens: StrictInt = Field(
        default=2_000, ge=0, le=MAX_COUNT, description="Maximum tokens that blocks add to a call."
    )
    fitting_tokens: StrictInt = Field(
        default=2_000,
        ge=0,
        le=MAX_COUNT,
        description="Maximum tokens that notes and episodes for the question add to a call.",
    )
    answer_mode: AnswerMode = Field(
        default=AnswerMode.HINT,
        description="How its calls use ready answers: `off` ignores them, `hint` shows them in the context, `serve` "
        "returns those that are certain.",
    )
    sleeptime_agent: StrictBool = Field(
        default=False, description="Make it a sleep-time agent, which may write blocks even without `hot_edits`."
    )
    preset: Literal["personal"] | None = Field(
        default=None, description="`personal` for the agent of one person: it turns `correct_memory` on."
    )
    correct_memory: StrictBool | None = Field(
        default=None,
        description="Let it correct and forget what its end user said (`memory_correct`, `memory_forget`); off by "
        "default, on with the preset `personal`.",
    )

    @property
    def approves_model_calls(self) -> bool:
        """Whether some of its model calls need a person's approval."""
        return bool(self.approve_models) or self.approve_above_usd is not None

    @property
    def may_correct_memory(self) -> bool:
        return self.preset == "personal" if self.correct_memory is None else self.correct_memory

    @model_validator(mode="before")
    @classmethod
    def _bind_first_bank(cls, values: Any) -> Any:
        """Make the first of `banks` the `bank`. Raises ValueError: another `bank` is stated beside it."""
        if not isinstance(values, Mapping):
            return values
        stated = cast("Mapping[str, Any]", values)
        banks = stated.get("banks")
        if not isinstance(banks, list | tuple) or not banks:
            return stated
        first = cast("Sequence[object]", banks)[0]
        if stated.get("bank") not in (None, first):
            raise ValueError("`bank` is the first of `banks`; state one of the two")
        return {**stated, "bank": first}

    @field_validator("banks")
    @classmethod
    def _require_different_banks(cls, banks: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(banks)) < len(banks):
            raise ValueError("it names a bank twice")
        return banks

    @property
    def other_banks(self) -> Sequence[str]:
        """Return the banks behind the first."""
        return self.banks[1:]


class OwnWake(StrEnum):
    """What an agent can ask to be woken by from one sleep (WAKE-80)."""

    MENTION = "mention"
    MESSAGE = "message"
    """Any message in its threads or its inbox."""
    ALARM = "alarm"
    """An alarm that an earlier wake deletes."""
    EVENT = "event"
    """A named event; which one, its wait says."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnWakes:
    """What an agent asked to be woken by, besides what its policy says."""

    generation: int
    """The sleep for which it holds."""
    by: frozenset[OwnWake]


@dataclass(frozen=True, kw_only=True, slots=True)
class NextWake:
    """What will wake an agent next, if nothing comes before."""

    at: datetime
    by: str
    """`routine NAME`, or `deferred wake by SENDER`."""


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
    next: NextWake | None = None
    """The store keeps it; see `stores.sql.agents`."""
    wake_on: OwnWakes | None = None
    """As the agent stated it last; it may be of an earlier sleep."""

    @property
    def reference(self) -> str:
        """Return `name` in the session `default`, else `session:name`."""
        return build_reference(self.session, self.name)

    def asked_for(self, *wakes: OwnWake) -> bool:
        """Return whether it asked to be woken by one of these from its present sleep."""
        stated = self.wake_on
        return stated is not None and stated.generation == self.generation and not stated.by.isdisjoint(wakes)
