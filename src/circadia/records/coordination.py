"""How an agent may be woken: its guardrails, its launcher, its zone and its blackouts."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import Field, TypeAdapter

from circadia.records.schedule import Blackout, BlackoutPolicies

MOST: Final = 10**9
"""Largest limit; none means no limit."""


class PairMode(StrEnum):
    """What a pair is, for the limit of wakes a day."""

    DIRECTED = "directed"
    """Wakes of this sender to this target."""
    UNDIRECTED = "undirected"
    """Wakes between the two, in either direction."""


class OnBlock(StrEnum):
    """What becomes of a wake that something temporary is against."""

    DEFER = "defer"
    REFUSE = "refuse"


@dataclass(frozen=True, kw_only=True, slots=True)
class Guardrails:
    """Limits of wakes. 0 allows none, none means no limit (WAKE-16)."""

    cooldown_seconds: Annotated[float, Field(ge=0, le=MOST)] | None = 300.0
    """Least time between two wakes of the agent."""
    max_daily_session_minutes: Annotated[float, Field(ge=0, le=MOST)] | None = 120.0
    """Minutes that its pulses may run in a day of its zone."""
    max_wakes_per_day: Annotated[int, Field(ge=0, le=MOST)] | None = 12
    """Wakes of the agent in a day of its zone."""
    max_wakes_per_pair_per_day: Annotated[int, Field(ge=0, le=MOST)] | None = 5
    """Of these, wakes by the same agent."""
    max_wakes_per_session: Annotated[int, Field(ge=0, le=MOST)] | None = 3
    """Wakes that a sender may ask for in one pulse or time awake; in a day, where that has no time limit."""
    pair_mode: PairMode = PairMode.DIRECTED
    """What a pair is."""
    max_chain_depth: Annotated[int, Field(ge=0, le=MOST)] | None = 24
    """Wakes from the root of a chain."""
    max_chain_visits: Annotated[int, Field(ge=0, le=MOST)] | None = None
    """Wakes of the same agent in a chain."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Coordination:
    """How an agent may be woken."""

    wakes_enabled: bool = True
    """Whether it can be woken at all, but by a person."""
    launcher: str = "resident"
    """How its pulses run."""
    zone: str = "UTC"
    """Its time zone: its day, its blackouts, its crons."""
    max_concurrent_pulse_sessions: Annotated[int, Field(ge=0, le=MOST)] | None = 2
    """Its pulses at the same time."""
    wake_guardrails: Guardrails = field(default_factory=Guardrails)
    """Limits."""
    on_busy: OnBlock = OnBlock.DEFER
    """While it has a pulse."""
    on_cooldown: OnBlock = OnBlock.DEFER
    """In its cooldown."""
    on_concurrency: OnBlock = OnBlock.DEFER
    """While all its places, or the fleet's, are taken."""
    guard_thread_events: bool = False
    """Whether its wake events pass the guardrails too (WAKE-07)."""
    wake_on_high_priority: bool = True
    """Whether messages of priority high and urgent ask for a wake (WAKE-06)."""
    defer_max_seconds: Annotated[float, Field(gt=0, le=30 * 86_400)] = 86_400.0
    """When a deferred wake expires."""
    pulse_timeout_seconds: Annotated[float, Field(gt=0, le=86_400)] | None = 3600.0
    """How long a pulse may run that a wake or a routine without its own limit started."""
    prompt_tokens: Annotated[int, Field(ge=100, le=1_000_000)] = 4000
    """Size of the prompt of a launched pulse."""
    heartbeat_minutes: Annotated[int, Field(ge=1, le=43_200)] | None = 30
    """Interval of the routine that a launched agent without routines gets; none means that it gets none."""
    max_consecutive_skips: Annotated[int, Field(ge=1, le=1_000_000)] = 5
    """Occurrences of a routine that are skipped in a row until people are told."""
    blackouts: tuple[Blackout, ...] = ()
    """When it is left alone, in its zone."""
    blackout_policies: BlackoutPolicies = field(default_factory=BlackoutPolicies)
    """What becomes of each kind of run in a blackout."""


_GROUPS: Final = {"wake_guardrails": Guardrails, "blackout_policies": BlackoutPolicies}
KEYS: Final = (
    *(each.name for each in fields(Coordination) if each.name not in _GROUPS),
    *(f"{group}.{each.name}" for group, kind in _GROUPS.items() for each in fields(kind)),
)
"""All settings by their flat names: `zone`, `wake_guardrails.cooldown_seconds`."""
DEFAULT: Final = Coordination()


class SettingSource(StrEnum):
    """Where a setting was made last."""

    DEFAULT = "default"
    FILE = "file"
    PATCH = "patch"


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """One setting of one agent; the later of file and PATCH holds (WAKE-16)."""

    value: object
    """What holds, ready for JSON."""
    source: SettingSource
    """Where it was made last."""
    at: datetime
    """When."""
    stated: bool = False
    """Whether the file said something when it was read last."""
    file: object = None
    """What it said: a change of this is a change of the file."""


def build_coordination(values: Mapping[str, Any]) -> Coordination:
    """Return the coordination of these values by flat name, as they are stored; the rest has its default.

    Keys that a newer version stored are left out. The values were checked when they were set.
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
    """Return all settings by flat name, ready for JSON."""
    dumped: dict[str, Any] = _ADAPTER.dump_python(coordination, mode="json")
    flat = {name: value for name, value in dumped.items() if name not in _GROUPS}
    return flat | {f"{group}.{name}": value for group in _GROUPS for name, value in dumped[group].items()}


_ADAPTER: Final = TypeAdapter(Coordination)
