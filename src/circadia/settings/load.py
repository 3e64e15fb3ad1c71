"""Reads `circadia.yaml` once; an unknown key is an error that names its path and the nearest known one."""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast, get_args

import yaml
from pydantic import BaseModel, ValidationError

from circadia.errors import ConfigError
from circadia.settings.agents import PolicySettings
from circadia.settings.root import Settings

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_NAMED_SECTIONS = ("upstreams", "mcp_servers", "agents")


@dataclass(frozen=True, kw_only=True, slots=True)
class ConfigFile:
    """The file of a running server."""

    path: Path
    """Where it is."""
    said: Settings
    """What it said when the server started; options of the command may differ from it."""


def load_settings(path: Path | None) -> Settings:
    """Return the settings in `path`, or the defaults without one.

    Raises:
        ConfigError: the file cannot be read, is not YAML, or holds an unknown key or a bad value.
    """
    if path is None:
        return settings_from({})
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {str(path)!r}: {error}; name a readable file with --config") from error
    try:
        raw: object = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:  # a ValueError is a date such as 2026-02-30
        raise ConfigError(f"{str(path)!r} is not YAML: {error}") from error
    except RecursionError:
        raise ConfigError(f"{str(path)!r} is nested too deep; look for brackets that are not closed") from None
    if raw is None:
        raw = {}
    if not isinstance(raw, dict):
        raise ConfigError(f"{str(path)!r} must hold keys and values, not a {type(raw).__name__}")
    return settings_from(cast("dict[str, Any]", raw))


def settings_from(raw: Mapping[str, Any]) -> Settings:
    """Return settings from parsed YAML. An agent's missing policy keys come from `defaults`.

    Raises:
        ConfigError: an unknown key, a bad name or a bad value; the message names the path.
    """
    for section in _NAMED_SECTIONS:
        for name in _keys(raw.get(section)):
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                raise ConfigError(f"{section}.{name}: a name must match [a-z0-9][a-z0-9_-]{{0,62}}; rename {name!r}")
    try:
        return Settings.model_validate(_with_defaults(raw))
    except ValidationError as error:
        raise ConfigError("; ".join(_told(line, raw) for line in error.errors())) from error


def _keys(section: object) -> list[object]:
    return list(cast("Mapping[object, object]", section)) if isinstance(section, Mapping) else []


def _with_defaults(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return `raw` with the policy keys of `defaults` copied to each agent that lacks them."""
    filled = {key: value for key, value in raw.items() if value is not None}
    defaults = filled.get("defaults")
    agents = filled.get("agents")
    if isinstance(defaults, Mapping) and isinstance(agents, Mapping):
        given = cast("Mapping[str, Any]", defaults)
        shared = {key: given[key] for key in PolicySettings.model_fields if key in given}
        filled["agents"] = {
            name: {**shared, **(agent or {})} if isinstance(agent, Mapping | None) else agent
            for name, agent in cast("Mapping[str, Any]", agents).items()
        }
    return filled


def _told(line: Any, raw: Mapping[str, Any]) -> str:
    """Return one error of pydantic's as a sentence with the path and, for an unknown key, the nearest known one."""
    path = ".".join(str(part) for part in line["loc"])
    if line["type"] != "extra_forbidden":
        # Of a whole section that is wrong the message says which part; the rest of it would only hide that.
        got = "" if isinstance(line.get("input", {}), Mapping) else f" (got {line['input']!r})"
        return f"{path}: {line['msg']}{got}"
    known = _known_keys(line["loc"][:-1])
    near = difflib.get_close_matches(str(line["loc"][-1]), known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(sorted(known))}"
    return f"unknown key {path!r}; {hint}"


def _known_keys(path: tuple[int | str, ...]) -> list[str]:
    """Return the keys that the section at `path` knows."""
    model: type[BaseModel] = Settings
    for part in path:
        field = model.model_fields.get(str(part))
        if field is None:
            continue
        kinds = (field.annotation, *get_args(field.annotation))
        model = next((k for k in kinds if isinstance(k, type) and issubclass(k, BaseModel)), model)
    return list(model.model_fields)
