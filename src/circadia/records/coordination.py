"""Coordination: an agent's guardrails, launcher, time zone and blackouts."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import Field, TypeAdapter

from circadia.records.schedule import Blackout, BlackoutPolicies

MOST: Final = 10**9
"""Largest allowed limit."""


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Guardrails:
    """Limits of wakes. 0 allows none; none means no limit (WAKE-16)."""

    cooldown_seconds: Annotated[float, Field(ge=0, le=MOST)] | None = 300.0
    """Minimum time between two wakes of the agent."""
    max_daily_session_minutes: Annotated[float, Field(ge=0, le=MOST)] | None = 120.0
    """Total pulse minutes per day in the agent's zone."""
    max_wakes_per_day: Annotated[int, Field(ge=0, le=MOST)] | None = 12
    """Per day in the agent's zone."""
    max_wakes_per_pair_per_day: Annotated[int, Field(ge=0, le=MOST)] | None = 5
    """Wakes by the same agent, per day in the target's zone."""
    max_wakes_per_session: Annotated[int, Field(ge=0, le=MOST)] | None = 3
    """Wakes that a sender may request in one pulse or waking period; per day if that has no time limit."""
    pair_mode: PairMode = PairMode.DIRECTED
    max_chain_depth: Annotated[int, Field(ge=0, le=MOST)] | None = 24
    """Wakes from the root of a chain."""
    max_chain_visits: Annotated[int, Field(ge=0, le=MOST)] | None = None
    """Wakes of the same agent in a chain."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Coordination:
    wakes_enabled: bool = True
    """False leaves waking to people."""
    launcher: str = "resident"
    zone: str = "UTC"
    """IANA time zone of its days, blackouts and crons."""
    max_concurrent_pulse_sessions: Annotated[int, Field(ge=0, le=MOST)] | None = 2
    wake_guardrails: Guardrails = field(default_factory=Guardrails)
    on_busy: OnBlock = OnBlock.DEFER
    """Applies while the agent has a pulse."""
    on_cooldown: OnBlock = OnBlock.DEFER
    on_concurrency: OnBlock = OnBlock.DEFER
    """Applies while all pulse slots of the agent or the fleet are taken."""
    guard_thread_events: bool = False
    """Apply the guardrails to wake events too (WAKE-07)."""
    wake_on_high_priority: bool = True
    """Let messages of priority high and urgent request a wake (WAKE-06)."""
    defer_max_seconds: Annotated[float, Field(gt=0, le=30 * 86_400)] = 86_400.0
    """Time after which a deferred wake expires."""
    pulse_timeout_seconds: Annotated[float, Field(gt=0, le=86_400)] | None = 3600.0
    """Time limit of pulses without one, from wakes and routines."""
    prompt_tokens: Annotated[int, Field(ge=100, le=1_000_000)] = 4000
    """Size of the prompt of a launched pulse."""
    heartbeat_minutes: Annotated[int, Field(ge=1, le=43_200)] | None = 30
    """Interval of the default routine of a launched agent without routines; none disables it."""
    max_consecutive_skips: Annotated[int, Field(ge=1, le=1_000_000)] = 5
    """Consecutive skips of a routine before people are alerted."""
    blackouts: tuple[Blackout, ...] = ()
    """In the agent's zone."""
    blackout_policies: BlackoutPolicies = field(default_factory=BlackoutPolicies)


_GROUPS: Final = {"wake_guardrails": Guardrails, "blackout_policies": BlackoutPolicies}
KEYS: Final = (
    *(setting.name for setting in fields(Coordination) if setting.name not in _GROUPS),
    *(f"{group}.{setting.name}" for group, kind in _GROUPS.items() for setting in fields(kind)),
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
    return _ADAPTER.validate_python(own)


def flatten_coordination(coordination: Coordination) -> dict[str, object]:
    """Return all settings by flat name as JSON values."""
    dumped: dict[str, Any] = _ADAPTER.dump_python(coordination, mode="json")
    flat = {name: value for name, value in dumped.items() if name not in _GROUPS}
    return flat | {f"{group}.{name}": value for group in _GROUPS for name, value in dumped[group].items()}


_ADAPTER: Final = TypeAdapter(Coordination)
