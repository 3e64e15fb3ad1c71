"""Read `circadia.yaml` once, and find all mistakes in it. A withdrawn key is named in the log."""

import copy
import itertools
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

import yaml
from pydantic import ValidationError

from circadia.errors import ConfigError
from circadia.records.agent import RESERVED, AgentPolicy
from circadia.records.bank import explain_invalid_bank_name
from circadia.settings.mistakes import KeyPath, find_mistakes, find_withdrawn_settings, has_part
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
        ConfigError: the file cannot be read, is not YAML, or has mistakes; the message names them all.
    """
    return _require_no_mistakes(*find_settings(path))


def find_settings(path: Path | None) -> tuple[Settings, Sequence[str]]:
    """Return the settings in `path` without their mistakes, and a sentence for each mistake.

    Raises:
        ConfigError: the file cannot be read or is not YAML.
    """
    if path is None:
        return _find_valid_settings({})
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{str(path)!r} is not UTF-8; save it as UTF-8, not as UTF-16 or Latin-1") from error
    except OSError as error:
        raise ConfigError(f"cannot read {str(path)!r}: {error}; name a readable file with --config") from error
    try:
        raw, doubles = _parse(text)
    except ValueError as error:
        raise ConfigError(f"{str(path)!r} is not YAML: {error}") from error
    except RecursionError:
        raise ConfigError(f"{str(path)!r} is nested too deep; look for brackets that are not closed") from None
    if raw is None:
        raw = {}
    if not isinstance(raw, dict):
        raise ConfigError(f"{str(path)!r} must hold keys and values, not a {type(raw).__name__}")
    settings, mistakes = _find_valid_settings(cast("dict[str, Any]", raw))
    return settings, [*doubles, *mistakes]


def settings_from(raw: Mapping[str, Any]) -> Settings:
    """Return settings from parsed YAML; an agent's missing policy keys come from `defaults`.

    Raises:
        ConfigError: unknown keys, bad names or bad values; the message has the path of each.
    """
    return _require_no_mistakes(*_find_valid_settings(raw))


def config_error(mistakes: Sequence[str]) -> ConfigError | None:
    """Return an error that names all mistakes, each on a line of its own if there are several; None without any."""
    if len(mistakes) < 2:
        return ConfigError(mistakes[0]) if mistakes else None
    lines = "".join(f"\n  {mistake}" for mistake in mistakes)
    return ConfigError(f"{len(mistakes)} mistakes in the configuration:{lines}")


def _require_no_mistakes(settings: Settings, mistakes: Sequence[str]) -> Settings:
    if (error := config_error(mistakes)) is not None:
        raise error
    return settings


def _find_valid_settings(raw: Mapping[str, Any]) -> tuple[Settings, list[str]]:
    """Return the settings that are left without the wrong parts of `raw`, and all mistakes."""
    rest: dict[str, Any] = copy.deepcopy(dict(raw))
    mistakes = list(_remove_bad_names(rest))
    explained: set[KeyPath] = set()
    while True:
        filled = _with_defaults(rest)
        try:
            settings = Settings.model_validate(filled)
            break
        except ValidationError as error:
            found = find_mistakes(error, filled, Settings)
            # A mistake of `defaults` is found in each agent, too.
            for mistake in [each for each in found if not _is_from_defaults(each.place, rest)]:
                if not any(place[: len(mistake.place)] == mistake.place for place in explained):
                    mistakes.append(mistake.message)
                if mistake.explains_others:
                    explained.add(mistake.place)
                _remove(rest, mistake.place)
    for path in find_withdrawn_settings(filled, Settings):
        _logger.warning("%s has no effect any more: remove it from the configuration", path)
    mistakes += [*_find_unknown_names(settings, raw), *_find_contradictions(settings)]
    return settings, mistakes


def _remove_bad_names(raw: dict[str, Any]) -> Iterator[str]:
    for section in _NAMED_SECTIONS:
        for name in _keys(raw.get(section)):
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                yield f"{section}.{name}: a name must match [a-z0-9][a-z0-9_-]{{0,62}}; rename {name!r}"
                del raw[section][name]


def _is_from_defaults(place: KeyPath, raw: object) -> bool:
    """Return whether an agent has the value at a path from section `defaults`."""
    stated = raw
    for part in place[:3]:
        if not has_part(stated, part):
            return len(place) > 2 and place[0] == "agents" and has_part(cast("Any", raw).get("defaults"), place[2])
        stated = cast("Any", stated)[part]
    return False


def _remove(raw: Any, place: KeyPath) -> None:
    """Remove what is at a path; of a list all."""
    *above, last = itertools.takewhile(lambda part: not isinstance(part, int), place)
    around: Any = _value_at(raw, tuple(above))
    if has_part(around, last):
        del around[last]


def _value_at(raw: Any, place: KeyPath) -> object:
    for part in place:
        raw = raw[part] if has_part(raw, part) else None
    return raw


def _find_unknown_names(settings: Settings, raw: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each name that the server would refuse to start with; `raw` says what is defined."""
    launchers = {"resident", *map(str, _keys(raw.get("launchers")))}
    for name in _keys(raw.get("agents")):
        if name in RESERVED:
            yield f"agents.{name}: messages and events call people and the server so; rename it"
        launcher = _value_at(raw, ("agents", str(name), "coordination", "launcher"))
        if isinstance(launcher, str) and launcher not in launchers:
            hint = _suggest_name(launcher, launchers)
            yield f"agents.{name}.coordination.launcher: there is no launcher {launcher!r}{hint}"
    named = [("banks", bank) for bank in settings.banks]
    for where, policy in (("defaults", settings.defaults), *((f"agents.{k}", v) for k, v in settings.agents.items())):
        named += [(where, name) for name in _bank_names(policy)]
    for where, bank in dict.fromkeys(named):
        if wrong := explain_invalid_bank_name(bank):
            yield f"{where}: {wrong}"
    model, upstreams = settings.sleeptime.model, set(map(str, _keys(raw.get("upstreams"))))
    if isinstance(model, SleepModelSettings) and model.upstream not in upstreams:
        near = _suggest_name(model.upstream, upstreams)
        yield f"sleeptime.model.upstream: there is no upstream {model.upstream!r}{near}"


def _bank_names(policy: AgentPolicy) -> list[str]:
    names = (policy.bank, *policy.banks, *policy.write_banks, *policy.read_banks)
    return [name for name in dict.fromkeys(names) if name is not None]


def _find_contradictions(settings: Settings) -> Iterator[str]:
    """Yield a sentence for each key that another one makes pointless."""
    if settings.signals is not None and settings.signals_env is not None:
        yield "signals and signals_env say the same; leave one out"
    key = "signals" if settings.signals_env is None else "signals_env"
    if getattr(settings, key) is not None and settings.server.database_url is None:
        yield f"{key}: a server on SQLite has no others to signal to; set server.database_url, or remove it"
    for name, launcher in settings.launchers.items():
        for variable in getattr(launcher, "env_from", ()):
            if variable in settings.withheld_variables:
                yield f"launchers.{name}.env_from: {variable!r} is a secret of this server, which no agent may get"
    folders: dict[Path, str] = {}
    for name, dream in settings.dreams.items():
        other = folders.setdefault(Path(dream.folder).expanduser(), name)
        if other != name:
            yield f"dreams.{other} and dreams.{name} are over the same folder; leave one out"


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
_MERGE = "tag:yaml.org,2002:merge"


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
        ValueError: the text is not YAML, has a key twice in one map, or holds an impossible date such as 2026-02-30;
            the message is one line.
    """
    parsed, doubles = _parse(text)
    if doubles:
        raise ValueError("; ".join(doubles))
    return parsed


def _parse(text: str) -> tuple[object, Sequence[str]]:
    """Return the content of YAML, and a sentence for each key that one of its maps has twice."""
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        doubles = list(_join_doubles(node, (), set()))
        parsed: object = None if node is None else cast("Any", loader).construct_document(node)
        return parsed, doubles
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
        raise ValueError(f"{where}{error.problem}") from error
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error


def _join_doubles(node: yaml.Node | None, place: tuple[str, ...], seen: set[int]) -> Iterator[str]:
    """Yield a sentence for each key that a map has twice, and join the maps below such a key."""
    if node is None or id(node) in seen:  # the target of several aliases
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for number, each in enumerate(node.value):
            yield from _join_doubles(each, (*place, str(number)), seen)
    if not isinstance(node, yaml.MappingNode):
        return
    pairs: dict[object, list[tuple[yaml.Node, yaml.Node]]] = {}
    for key, value in node.value:
        is_plain = isinstance(key, yaml.ScalarNode) and key.tag != _MERGE
        pairs.setdefault((key.tag, key.value) if is_plain else id(key), []).append((key, value))
    node.value = []
    for same in pairs.values():
        (key, value), *others = same
        path = (*place, str(key.value))
        if others:
            lines = [str(each.start_mark.line + 1) for each, _ in same]
            yield f"the key {'.'.join(path)!r} appears on lines {', '.join(lines[:-1])} and {lines[-1]}; join them"
            if all(isinstance(each, yaml.MappingNode) for _, each in same):
                joined = [pair for _, each in same for pair in each.value]
                value = yaml.MappingNode(value.tag, joined, value.start_mark, value.end_mark)
        node.value.append((key, value))
        yield from _join_doubles(value, path, seen)
