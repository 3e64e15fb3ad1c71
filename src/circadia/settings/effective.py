"""Each setting with the value in force and where it comes from, without secrets."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from circadia.records.agent import AgentPolicy
from circadia.settings.root import Settings
from circadia.settings.section import HIDDEN, hide_url_secrets


@dataclass(frozen=True, kw_only=True, slots=True)
class EffectiveSetting:
    """A setting with the value in force.

    Attributes:
        value: Passwords and the environment of programs are hidden.
        source: `file`; `defaults` if an agent takes the value from that section; or `built in`.
    """

    key: str
    value: Any
    source: str


def list_settings(settings: Settings, stated: Mapping[str, Any]) -> Iterator[EffectiveSetting]:
    """Yield each setting; `stated` are those that the file has."""
    for path, value in _leaves((), settings.model_dump(mode="json")):
        yield EffectiveSetting(key=".".join(path), value=_mask_secret(path, value), source=_source(path, stated))


def _leaves(path: tuple[str, ...], value: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, dict) and value:
        for key, inner in cast("dict[str, Any]", value).items():
            yield from _leaves((*path, key), inner)
    else:
        yield path, value


def _source(path: tuple[str, ...], stated: Mapping[str, Any]) -> str:
    if _is_stated(stated, path):
        return "file"
    own_policy = path[0] == "agents" and path[-1] in AgentPolicy.model_fields
    return "defaults" if own_policy and _is_stated(stated, ("defaults", path[-1])) else "built in"


def _is_stated(stated: object, path: tuple[str, ...]) -> bool:
    for part in path:
        if not isinstance(stated, Mapping) or part not in stated:
            return False
        stated = cast("Mapping[str, object]", stated)[part]
    return True


def _mask_secret(path: tuple[str, ...], value: Any) -> Any:
    if path[0] in ("mcp_servers", "launchers") and path[2:3] == ("env",) and len(path) > 3:
        return HIDDEN
    return hide_url_secrets(value) if isinstance(value, str) and "://" in value else value
