"""The tables of docs/reference/config.md, as the settings give them; a test compares."""

import types
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from circadia.records.agent import AgentPolicy
from circadia.records.coordination import Guardrails, WakeRules
from circadia.records.hook import HmacKeys, HookKeys
from circadia.records.schedule import BlackoutKeys, BlackoutPolicies, RecurrenceRule, RoutineKeys
from circadia.settings import (
    AgentSettings,
    DefaultsSettings,
    FleetSettings,
    LimitsSettings,
    McpServerSettings,
    ServerSettings,
    UpstreamSettings,
)
from circadia.settings.launchers import (
    CallableLauncherSettings,
    ContainerLauncherSettings,
    KubernetesLauncherSettings,
    ResidentLauncherSettings,
    SubprocessLauncherSettings,
    WebhookLauncherSettings,
)
from circadia.settings.schedule import (
    BlackoutSettings,
    DjinnbotBlackoutSettings,
    DjinnbotScheduleSettings,
    ScheduleSettings,
)

HEAD: Final = ("| key | type | default | unit | description |", "| --- | --- | --- | --- | --- |")

SECTIONS: Final[Mapping[str, tuple[type[BaseModel], ...]]] = {
    "server": (ServerSettings,),
    "upstreams": (UpstreamSettings,),
    "mcp_servers": (McpServerSettings,),
    "defaults": (AgentPolicy, DefaultsSettings),
    "agents": (AgentSettings, ScheduleSettings),
    "agents`: `coordination": (WakeRules,),
    "agents`: `wake_guardrails": (Guardrails,),
    "agents`: `routines": (RoutineKeys, RecurrenceRule),
    "agents`: `blackouts": (BlackoutSettings, BlackoutKeys),
    "agents`: `blackout_policies": (BlackoutPolicies,),
    "agents`: `pulse_*": (DjinnbotScheduleSettings, DjinnbotBlackoutSettings),
    "launchers`: `subprocess": (SubprocessLauncherSettings,),
    "launchers`: `container": (ContainerLauncherSettings,),
    "launchers`: `kubernetes": (KubernetesLauncherSettings,),
    "launchers`: `webhook": (WebhookLauncherSettings,),
    "launchers`: `callable": (CallableLauncherSettings,),
    "launchers`: `resident": (ResidentLauncherSettings,),
    "hooks": (HookKeys,),
    "hooks`: `hmac": (HmacKeys,),
    "fleet": (FleetSettings,),
    "limits": (LimitsSettings,),
}
"""The models whose own fields stand below each heading; an agent's policy keys stand below `defaults`."""

_UNITS: Final = {
    "_days": "days",
    "_seconds": "seconds",
    "_bytes": "bytes",
    "_bytes_in_flight": "bytes",
    "_characters": "characters",
    "max_usd_per_day": "US dollars a day",
    "max_calls_per_day": "calls a day",
    "max_tokens_per_day": "tokens a day",
    "_connections": "connections",
    "holds": "calls",
    "holds_per_agent": "calls",
    "retries": "repeats",
    "_minutes": "minutes",
    "_mebibytes": "MiB",
    "_ms": "milliseconds",
    "_tokens": "tokens",
    "cpus": "cores",
    "max_wakes_per_day": "wakes",
    "max_wakes_per_pair_per_day": "wakes",
    "max_wakes_per_session": "wakes",
}
_TYPES: Final[Mapping[object, str]] = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    datetime: "time",
    Any: "any value",
}


def table(section: str) -> list[str]:
    """Return the lines of the section's table."""
    rows = [_row(name, info) for model in SECTIONS[section] for name, info in own_fields(model).items()]
    return [*HEAD, *rows]


def own_fields(model: type[BaseModel]) -> Mapping[str, FieldInfo]:
    """Return the fields that the model does not inherit."""
    return {name: info for name, info in model.model_fields.items() if name in vars(model)["__annotations__"]}


def _row(name: str, info: FieldInfo) -> str:
    unit = next((unit for end, unit in _UNITS.items() if name.endswith(end)), "")
    description = (info.description or "").replace("|", "\\|")
    return f"| `{name}` | {_kind(info.annotation)} | {default(info)} | {unit} | {description} |"


def _kind(annotation: Any) -> str:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return " or ".join(_kind(each) for each in inner if each is not types.NoneType)
    if origin is Literal:
        return ", ".join(f"`{each}`" for each in inner)
    if origin in (tuple, list, frozenset):
        return f"list of {_kind(inner[0])}"
    if origin is dict:
        return f"map of text to {_kind(inner[1])}"
    if origin is Annotated:
        return _kind(inner[0])
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return ", ".join(f"`{each.value}`" for each in annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "map"
    return _TYPES[annotation]


def default(info: FieldInfo) -> str:
    """Return a field's default as the page tells it."""
    value: Any = info.get_default(call_default_factory=True)
    if value is PydanticUndefined:
        return "required"
    if value is None:
        return "none"
    if isinstance(value, BaseModel):
        return "see there"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, StrEnum):
        return f"`{value.value}`"
    if isinstance(value, float | int):
        return f"{value:g}" if isinstance(value, float) or value < 10_000 else f"{value:,}"
    if isinstance(value, str):
        return f"`{value}`" if value else "empty"
    return f"`[{', '.join(repr(str(each)) for each in value)}]`".replace("'", '"') if value else "empty"
