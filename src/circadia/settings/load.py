"""Read `circadia.yaml` once, and describe its mistakes by their path, with the nearest known key for an unknown one.

A withdrawn key is named in the log.
"""

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, Union, cast, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from circadia.errors import ConfigError
from circadia.records.agent import RESERVED, AgentPolicy
from circadia.records.bank import explain_invalid_bank_name
from circadia.records.withdrawn_setting import WithdrawnSettings
from circadia.settings.root import Settings
from circadia.settings.sleeptime import SleepModelSettings
from circadia.suggestions import closest

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
        named += [(where, name) for name in _bank_names(policy)]
    for where, bank in named:
        if wrong := explain_invalid_bank_name(bank):
            raise ConfigError(f"{where}: {wrong}")
    model = settings.sleeptime.model
    if isinstance(model, SleepModelSettings) and model.upstream not in settings.upstreams:
        near = _suggest_name(model.upstream, settings.upstreams)
        raise ConfigError(f"sleeptime.model.upstream: there is no upstream {model.upstream!r}{near}")


def _bank_names(policy: AgentPolicy) -> list[str]:
    names = (policy.bank, *policy.banks, *policy.write_banks, *policy.read_banks)
    return [name for name in dict.fromkeys(names) if name is not None]


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
            name: _with_shared(shared, cast("Mapping[str, Any]", agent or {}))
            if isinstance(agent, Mapping | None)
            else agent
            for name, agent in cast("Mapping[str, Any]", agents).items()
        }
    return filled


_BINDINGS = ("bank", "banks")


def _with_shared(shared: Mapping[str, Any], agent: Mapping[str, Any]) -> dict[str, Any]:
    """Return an agent's keys with the shared ones; a `bank` or `banks` of its own replaces both."""
    is_bound = any(key in agent for key in _BINDINGS)
    return {key: value for key, value in shared.items() if not (is_bound and key in _BINDINGS)} | dict(agent)


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


KeyPath = tuple[int | str, ...]

_NO_MAP = ("dict_type", "model_type", "model_attributes_type")
_NO_LIST = ("tuple_type", "list_type", "set_type", "frozen_set_type")
_OTHERWISE = "Input should be "
_SHOWN = 100
"""Maximum length of a value in a message; longer values are omitted."""


def describe_mistakes(error: ValidationError, given: object, model: type[BaseModel]) -> Iterator[str]:
    """Yield a sentence for each wrong place in `given`, with all the values that it may hold.

    pydantic adds the members of a union to its paths and reports errors for each; the file has no such members.
    """
    by_place: dict[KeyPath, list[Any]] = {}
    for line in error.errors():
        by_place.setdefault(_place_of_error(line, given), []).append(line)
    for place, lines in by_place.items():
        deeper = any(len(other) > len(place) and other[: len(place)] == place for other in by_place)
        if not (deeper and isinstance(lines[0].get("input"), Mapping)):  # another member of a union fits better
            yield _describe_place(place, lines, given, model)


def find_withdrawn_settings(given: object, kind: object, place: KeyPath = ()) -> Iterator[str]:
    """Yield the path of each key that has no effect any more."""
    if not isinstance(given, Mapping):
        return
    models = [model for model in _models_of_type(kind) if issubclass(model, WithdrawnSettings)]
    for name, value in cast("Mapping[str, object]", given).items():
        if any(name in model.withdrawn for model in models):
            yield ".".join((*map(str, place), name))
        for below in _types_below(kind, name):
            yield from find_withdrawn_settings(value, below, (*place, name))


def _place_of_error(line: Any, given: object) -> KeyPath:
    """Return the path in `given`, without pydantic's union members."""
    place: KeyPath = ()
    for part in line["loc"]:
        if _has_part(given, part):
            given = cast("Any", given)[part]
        elif line["type"] != "missing" or part != line["loc"][-1]:
            continue
        place += (part,)
    return place


def _has_part(given: object, part: int | str) -> bool:
    if isinstance(given, Mapping):
        return part in given
    return isinstance(given, Sequence) and isinstance(part, int) and part < len(cast("Sequence[object]", given))


def _describe_place(place: KeyPath, lines: Sequence[Any], given: object, model: type[BaseModel]) -> str:
    path, line = ".".join(map(str, place)), lines[0]
    if line["type"] == "extra_forbidden":
        known = _known_keys(place[:-1], given, model)
        near = closest(str(place[-1]), known, count=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(sorted(known))}"
        return f"unknown key {path!r}; {hint}"
    if line["type"] == "value_error":  # our own messages show the value
        return f"{path}: {line['ctx']['error']}"
    messages = [_describe_error(line) for line in lines]
    messages = [messages[0], *(message.removeprefix(_OTHERWISE) for message in messages[1:])]
    # A whole section would only hide the wrong part, which the message already names.
    suffix = "" if isinstance(line.get("input", {}), Mapping) else f" (got {line['input']!r})"
    return f"{path}: {', or '.join(messages)}{suffix if len(suffix) <= _SHOWN else ''}"


def _describe_error(line: Any) -> str:
    if line["type"] in _NO_MAP:
        return f"{_OTHERWISE}a map of keys and values"
    if line["type"] in _NO_LIST:
        return f"{_OTHERWISE}a list"
    if line["type"] == "union_tag_not_found":
        return f"the key {line['ctx']['discriminator']} is missing"
    if line["type"] == "union_tag_invalid":
        return "{discriminator} should be one of {expected_tags} (got {tag!r})".format_map(line["ctx"])
    return line["msg"]


def _known_keys(place: KeyPath, given: object, model: type[BaseModel]) -> list[str]:
    """Return the known keys at a path; where a discriminator decides, the value in `given` counts."""
    kinds: list[object] = [model]
    for part in place:
        given = cast("Any", given)[part]
        kinds = [below for kind in kinds for below in _types_below(kind, part)]
    models = [candidate for kind in kinds for candidate in _models_of_type(kind)]
    models = [candidate for candidate in models if _matches_discriminator(candidate, given)] or models
    return list({name: None for candidate in models for name in candidate.model_fields})


def _types_below(kind: object, part: int | str) -> Iterator[object]:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType, Annotated):
        for argument in inner[:1] if origin is Annotated else inner:
            yield from _types_below(argument, part)
    elif origin is not None and inner:
        yield inner[-1] if isinstance(origin, type) and issubclass(origin, Mapping) else inner[0]
    elif isinstance(kind, type) and issubclass(kind, BaseModel) and str(part) in kind.model_fields:
        yield kind.model_fields[str(part)].annotation


def _models_of_type(kind: object) -> Iterator[type[BaseModel]]:
    if get_origin(kind) in (Union, UnionType, Annotated):
        for argument in get_args(kind):
            yield from _models_of_type(argument)
    elif isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind


def _matches_discriminator(model: type[BaseModel], given: object) -> bool:
    """Return whether each single-value key of the model has that value in `given`."""
    values_given: Mapping[str, object] = cast("Mapping[str, object]", given) if isinstance(given, Mapping) else {}
    fixed = {
        name: get_args(field.annotation) for name, field in model.model_fields.items() if _is_constant(field.annotation)
    }
    return all(values_given.get(name) in values for name, values in fixed.items())


def _is_constant(kind: object) -> bool:
    return get_origin(kind) is Literal and len(get_args(kind)) == 1
