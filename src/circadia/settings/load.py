"""Read `circadia.yaml` once; an unknown key is an error that names its path and the nearest known key.

A withdrawn key is named in the log.
"""

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

import yaml
from pydantic import ValidationError

from circadia.errors import ConfigError
from circadia.records.agent import RESERVED, AgentPolicy
from circadia.records.bank import explain_invalid_bank_name
from circadia.settings.root import Settings
from circadia.settings.sleeptime import SleepModelSettings
from circadia.settings.validation_messages import describe_mistakes, find_withdrawn_settings
from circadia.suggestions import closest

_TRUTH = "tag:yaml.org,2002:bool"


class _Loader(yaml.SafeLoader):
    """The safe loader, with `true` and `false` as the only booleans.

    YAML 1.1 also takes `off`, `on`, `yes` and `no`; since 1.2 they are words, and `off` is a value of settings.
    """

    yaml_implicit_resolvers: ClassVar = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _TRUTH or first in "tTfF"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def parse_yaml(text: str) -> object:
    """Parse YAML or JSON.

    Raises:
        ValueError: the text is not YAML, or holds an impossible date such as 2026-02-30; the message is one line.
    """
    try:
        return yaml.load(text, _Loader)  # noqa: S506 a safe loader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
        raise ValueError(f"{where}{error.problem}") from error
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error


_logger = logging.getLogger(__name__)

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_NAMED_SECTIONS = ("upstreams", "mcp_servers", "agents")


@dataclass(frozen=True, kw_only=True, slots=True)
class ConfigFile:
    """The configuration file of a running server."""

    path: Path
    startup_settings: Settings
    """Settings from the file at startup; command-line options may override them."""


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
        raw = parse_yaml(text)
    except ValueError as error:
        raise ConfigError(f"{str(path)!r} is not YAML: {error}") from error
    except RecursionError:
        raise ConfigError(f"{str(path)!r} is nested too deep; look for brackets that are not closed") from None
    if raw is None:
        raw = {}
    if not isinstance(raw, dict):
        raise ConfigError(f"{str(path)!r} must hold keys and values, not a {type(raw).__name__}")
    return settings_from(cast("dict[str, Any]", raw))


def settings_from(raw: Mapping[str, Any]) -> Settings:
    """Return settings from parsed YAML; an agent's missing policy keys come from `defaults`.

    Raises:
        ConfigError: an unknown key, a bad name or a bad value; the message names the path.
    """
    for section in _NAMED_SECTIONS:
        for name in _keys(raw.get(section)):
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                raise ConfigError(f"{section}.{name}: a name must match [a-z0-9][a-z0-9_-]{{0,62}}; rename {name!r}")
    filled = _with_defaults(raw)
    try:
        settings = Settings.model_validate(filled)
    except ValidationError as error:
        raise ConfigError("; ".join(describe_mistakes(error, filled, Settings))) from error
    for path in find_withdrawn_settings(filled, Settings):
        _logger.warning("%s has no effect any more: remove it from the configuration", path)
    _require_references(settings)
    _require_signals(settings)
    return settings


def _require_references(settings: Settings) -> None:
    """Reject unknown names that the server would refuse to start with."""
    launchers = {"resident", *settings.launchers}
    for name, agent in settings.agents.items():
        if name in RESERVED:
            raise ConfigError(
                f"agents.{name}: messages and events call people `operator` and the server `circadia`; rename it"
            )
        launcher = agent.coordination.launcher
        if launcher not in launchers:
            raise ConfigError(
                f"agents.{name}.coordination.launcher: there is no launcher {launcher!r}"
                f"{_suggest_name(launcher, launchers)}"
            )
    named = [("banks", bank) for bank in settings.banks]
    for where, policy in (("defaults", settings.defaults), *((f"agents.{k}", v) for k, v in settings.agents.items())):
        named += [(where, name) for name in (policy.bank, *policy.write_banks, *policy.read_banks) if name is not None]
    for where, bank in named:
        if wrong := explain_invalid_bank_name(bank):
            raise ConfigError(f"{where}: {wrong}")
    model = settings.sleeptime.model
    if isinstance(model, SleepModelSettings) and model.upstream not in settings.upstreams:
        near = _suggest_name(model.upstream, settings.upstreams)
        raise ConfigError(f"sleeptime.model.upstream: there is no upstream {model.upstream!r}{near}")


def _require_signals(settings: Settings) -> None:
    if settings.signals is not None and settings.signals_env is not None:
        raise ConfigError("signals and signals_env say the same; leave one out")
    key = "signals" if settings.signals_env is None else "signals_env"
    if getattr(settings, key) is not None and settings.server.database_url is None:
        raise ConfigError(
            f"{key}: a server on SQLite has no others to signal to; set server.database_url, or remove it"
        )


def _suggest_name(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    near = closest(name, names, count=1)
    return f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(map(repr, names))}" if names else ""


def _keys(section: object) -> list[object]:
    return list(cast("Mapping[object, object]", section)) if isinstance(section, Mapping) else []


def _with_defaults(raw: Mapping[str, Any]) -> dict[str, Any]:
    filled = {key: value for key, value in raw.items() if value is not None}
    defaults = filled.get("defaults")
    agents = filled.get("agents")
    if isinstance(defaults, Mapping) and isinstance(agents, Mapping):
        stated = cast("Mapping[str, Any]", defaults)
        shared = {key: stated[key] for key in AgentPolicy.model_fields if key in stated}
        filled["agents"] = {
            name: {**shared, **(agent or {})} if isinstance(agent, Mapping | None) else agent
            for name, agent in cast("Mapping[str, Any]", agents).items()
        }
    return filled
