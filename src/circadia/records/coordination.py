"""Coordination: an agent's guardrails, launcher, time zone and blackouts."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt

from circadia.records.schedule import Blackout, BlackoutPolicies

RESIDENT: Final = "resident"
"""The launcher of agents whose pulses are their times awake."""
MAX_LIMIT: Final = 10**9
"""Largest allowed limit."""
Count = Annotated[StrictInt, Field(ge=0, le=MAX_LIMIT)]
Amount = Annotated[StrictFloat, Field(ge=0, le=MAX_LIMIT)]
ConsecutiveSkips = Annotated[
    StrictInt, Field(ge=1, le=1_000_000, description="Consecutive skipped occurrences that raise an alert.")
]


class PairMode(StrEnum):
    """How the daily limit per pair counts wakes."""

    DIRECTED = "directed"
    """Wakes by this sender of this target."""
    UNDIRECTED = "undirected"
    """Wakes between the two in either direction."""


class OnBlock(StrEnum):
    """What happens to a wake that is blocked temporarily."""

    DEFER = "defer"
    REFUSE = "refuse"


class Guardrails(BaseModel):
    """Limits of wakes: 0 allows none, null means no limit (WAKE-16)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cooldown_seconds: Amount | None = Field(default=300.0, description="Minimum time between two wakes of the agent.")
    max_daily_session_minutes: Amount | None = Field(
        default=120.0, description="Maximum total run time of its pulses per day."
    )
    max_wakes_per_day: Count | None = Field(default=12, description="Maximum wakes per day, in the agent's time zone.")
    max_wakes_per_pair_per_day: Count | None = Field(default=5, description="Maximum wakes per day by one sender.")
    max_wakes_per_session: Count | None = Field(
        default=3,
        description="Maximum wakes by a sender in one pulse or wake period; per day if that has no time limit.",
    )
    pair_mode: PairMode = Field(
        default=PairMode.DIRECTED, description="Count A→B and B→A separately (`directed`) or together."
    )
    max_chain_depth: Count | None = Field(default=24, description="Maximum wakes from the root of a chain.")
    max_chain_visits: Count | None = Field(default=None, description="Maximum wakes of the same agent in a chain.")
    max_alarms_per_day: Count | None = Field(
        default=24, description="Maximum alarms that the agent may set for itself for one day, in its time zone."
    )


class WakeRules(BaseModel):
    """The key `coordination` of an agent in the configuration file: how it may be woken."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    wakes_enabled: StrictBool = Field(default=True, description="Allow wakes; people can always wake the agent.")
    launcher: str = Field(
        default=RESIDENT, description="How its pulses run: `resident` opens its gate; or a name of `launchers`."
    )
    max_concurrent_pulse_sessions: Count | None = Field(
        default=2, description="Maximum number of its concurrent pulses."
    )
    wake_guardrails: Guardrails = Field(default_factory=Guardrails, description="Limits of wakes.")
    on_busy: OnBlock = Field(
        default=OnBlock.DEFER, description="`defer` or `refuse` a wake while the agent has a pulse."
    )
    on_cooldown: OnBlock = Field(default=OnBlock.DEFER, description="`defer` or `refuse` a wake during its cooldown.")
    on_concurrency: OnBlock = Field(
        default=OnBlock.DEFER, description="`defer` or `refuse` a wake while all slots are in use."
    )
    guard_thread_events: StrictBool = Field(default=False, description="Apply the guardrails to its `wake_events` too.")
    wake_on_high_priority: StrictBool = Field(
        default=True, description="Request a wake for `high` and `urgent` messages."
    )
    defer_max_seconds: StrictFloat = Field(
        default=86_400.0, gt=0, le=30 * 86_400, description="Lifetime of a deferred wake."
    )
    pulse_timeout_seconds: StrictFloat | None = Field(
        default=3600.0, gt=0, le=86_400, description="Longest pulse, unless its routine sets a limit."
    )
    prompt_tokens: StrictInt = Field(
        default=4000, ge=100, le=1_000_000, description="Maximum prompt size of a launched pulse."
    )
    heartbeat_minutes: StrictInt | None = Field(
        default=30,
        ge=1,
        le=43_200,
        description="Interval at which a launched agent without routines checks for unread messages; `null` means "
        "never.",
    )


class Coordination(WakeRules):
    """How an agent may be woken, with its time zone and blackouts."""

    zone: str = "UTC"
    """IANA time zone of its days, blackouts and crons."""
    max_consecutive_skips: ConsecutiveSkips = 5
    blackouts: tuple[Blackout, ...] = ()
    """In the agent's zone."""
    blackout_policies: BlackoutPolicies = Field(default_factory=BlackoutPolicies)


_GROUPS: Final = {"wake_guardrails": Guardrails, "blackout_policies": BlackoutPolicies}
KEYS: Final = (
    *(name for name in Coordination.model_fields if name not in _GROUPS),
    *(f"{group}.{name}" for group, kind in _GROUPS.items() for name in kind.model_fields),
)
"""Flat names of all settings, such as `zone` and `wake_guardrails.cooldown_seconds`."""
DEFAULT: Final = Coordination()


class SettingSource(StrEnum):
    """Where a setting was last changed."""

    DEFAULT = "default"
    FILE = "file"
    PATCH = "patch"


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """One setting of one agent; the later change of file and PATCH applies (WAKE-16)."""

    value: object
    """JSON value."""
    source: SettingSource
    at: datetime
    stated: bool = False
    """Whether the file had a value when it was last read."""
    file: object = None
    """The file's value; a different one means that the file has changed."""


def build_coordination(values: Mapping[str, Any]) -> Coordination:
    """Build a coordination from stored values by flat name; missing ones get their defaults.

    Unknown keys, stored by a newer version, are dropped. Values were validated when they were set.
    """
    if not values:
        return DEFAULT
    own: dict[str, Any] = {name: {} for name in _GROUPS}
    for name, value in values.items():
        if name in KEYS:
            group, dot, inner = name.partition(".")
            (own[group] if dot else own)[inner or group] = value
    return Coordination.model_validate(own)


def flatten_coordination(coordination: Coordination) -> dict[str, object]:
    """Return all settings by flat name as JSON values."""
    dumped: dict[str, Any] = coordination.model_dump(mode="json")
    flat = {name: value for name, value in dumped.items() if name not in _GROUPS}
    return flat | {f"{group}.{name}": value for group in _GROUPS for name, value in dumped[group].items()}
