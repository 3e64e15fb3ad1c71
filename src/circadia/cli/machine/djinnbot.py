"""Reads the folders of DjinnBot's agents, maps their configuration to `circadia.yaml`, and reports on each line."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final, cast

import yaml
from pydantic import BaseModel, ValidationError

from circadia.errors import InvalidRequest
from circadia.records.coordination import Guardrails, WakeRules
from circadia.records.schedule import MAX_EVERY_SECONDS, MAX_TIMEOUT_SECONDS, MIN_EVERY_SECONDS
from circadia.settings.schedule import BlackoutSettings
from circadia.suggestions import did_you_mean

CONFIG = "config.yml"
PULSE = "PULSE.md"
_OTHER = ("slack.yml", "discord.yml", "telegram.yml", "signal.yml", "whatsapp.yml")
Path_ = tuple[str | int, ...]
_MAX_BYTES: Final = 2**18
"""Limit for one file; DjinnBot's own have a few thousand bytes."""
_MAX_LINES: Final = 100_000
"""Limit for keys and items, with aliases expanded."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentFolder:
    """The content of one agent's folder.

    Attributes:
        config: `config.yml`, parsed; empty if it cannot be read.
        lines: Line number of each key and item in it, by path.
        channels: Files of channels to people.
        fault: Why `config.yml` or `PULSE.md` cannot be read.
    """

    name: str
    config: Mapping[str, Any]
    lines: Mapping[Path_, int]
    pulse: str | None
    channels: tuple[str, ...]
    fault: str | None = None


def agent_folders(folder: Path) -> list[AgentFolder]:
    """Return the agents in one agent's folder, in `agents`, or in its parent. Raises InvalidRequest for none."""
    top = folder / "agents" if (folder / "agents").is_dir() else folder
    if not top.is_dir():
        raise InvalidRequest(f"{str(folder)!r} is no folder; name DjinnBot's folder, its `agents`, or one agent's")
    folders = [
        folder
        for folder in (top, *sorted(top.iterdir()))
        if not folder.name.startswith(("_", ".")) and (folder / CONFIG).is_file()
    ]
    if not folders:
        raise InvalidRequest(f"no agent in {str(top)!r}; an agent is a folder with a {CONFIG}")
    return [_read_folder(folder.resolve()) for folder in (folders[:1] if folders[0] == top else folders)]


def _read_folder(folder: Path) -> AgentFolder:
    config, lines, fault = _parse_yaml(folder / CONFIG)
    pulse = None
    if (folder / PULSE).is_file():
        try:
            pulse = "\n".join(line.rstrip() for line in _text(folder / PULSE).strip().splitlines())
        except (OSError, ValueError) as error:
            fault = fault or f"{PULSE} cannot be read: {error}"
    return AgentFolder(
        name=folder.name,
        config=config,
        lines=lines,
        pulse=pulse,
        channels=tuple(name for name in _OTHER if (folder / name).is_file()),
        fault=fault,
    )


def _text(file: Path) -> str:
    """Return the file's text. Raises OSError or ValueError if it is unreadable, too large, or not UTF-8."""
    with file.open("rb") as opened:
        content = opened.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise ValueError(f"it has more than {_MAX_BYTES} bytes")
    return content.decode("utf-8-sig")


def _parse_yaml(file: Path) -> tuple[Mapping[str, Any], dict[Path_, int], str | None]:
    """Return the parsed file, the line of each key by path, and the fault if it cannot be read."""
    try:
        text = _text(file)
    except (OSError, ValueError) as error:
        return {}, {}, f"cannot be read: {error}"
    try:
        parsed: object = yaml.safe_load(text)
        loader: Any = yaml.SafeLoader(text)
        node: object = loader.get_single_node()
        lines: dict[Path_, int] = {}
        _note_lines((), node, lines)  # first, because it bounds the expansion of aliases
        config = _plain({} if parsed is None else parsed)
    except (yaml.YAMLError, ValueError) as error:  # a ValueError is a date such as 2026-02-30
        return {}, {}, f"is not YAML: {' '.join(str(error).split())}"
    except RecursionError:
        return {}, {}, "has an alias in what it stands for, is too deep or stands for too much; write it out"
    if not isinstance(config, dict):
        return {}, {}, "holds no keys"
    return cast("dict[str, Any]", config), lines, None


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in cast("dict[object, object]", value).items()}
    return [_plain(item) for item in cast("list[object]", value)] if isinstance(value, list) else value


def _note_lines(path: Path_, node: object, lines: dict[Path_, int]) -> None:
    """Record the line of each key and item below the node. Raises RecursionError for too many, as for too deep."""
    if len(lines) > _MAX_LINES:
        raise RecursionError
    if isinstance(node, yaml.MappingNode):
        for key, value in cast("list[tuple[yaml.ScalarNode, yaml.Node]]", node.value):
            inner = (*path, str(key.value))
            lines[inner] = key.start_mark.line + 1
            _note_lines(inner, value, lines)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(cast("list[yaml.Node]", node.value)):
            lines[*path, number] = value.start_mark.line + 1
            _note_lines((*path, number), value, lines)


_MINUTES: Final = 30
"""DjinnBot's default interval."""
_DAY_MINUTES: Final = 24 * 60
_MAX_NUMBER: Final = 10**12
_BLACKOUT_KEYS: Final = frozenset(
    ("type", "label", "start_time", "startTime", "start", "end_time", "endTime", "end", "days_of_week", "daysOfWeek")
)
_WEEKDAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_GUARDRAILS: Final = "wake_guardrails"
_MODELS: Final = (
    "model", "thinking_model", "thinkingModel", "planning_model", "planningModel", "executor_model", "executorModel",
)  # fmt: skip
_BOARD: Final = "DjinnBot's task board; Circadia has none, so tell the agent in its instructions"
_PROGRAM: Final = "the agent's own program decides this"
_UNMAPPED: Final[Mapping[str, str]] = {
    "pulse_columns": _BOARD,
    "pulse_transitions_to": _BOARD,
    "thinking_level": _PROGRAM,
    "thinking_model_thinking_level": _PROGRAM,
    "tools": _PROGRAM,
    "skills_disabled": _PROGRAM,
    "max_concurrent_steps": "steps of DjinnBot's pipelines; Circadia has none",
    "thread_mode": "of DjinnBot's channels to people; Circadia has none",
    "threadMode": "of DjinnBot's channels to people; Circadia has none",
    "slack_decision_timeout_ms": "of DjinnBot's channels to people; Circadia has none",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class MappedLine:
    """The mapping of one line.

    Attributes:
        file: File in the agent's folder.
        line: None for a whole file, or for a key that is not there.
        to: Keys of `circadia.yaml` below the agent; None if the line was not mapped.
        note: Why the line was not mapped, or what differs.
    """

    agent: str
    file: str
    line: int | None = None
    key: str = ""
    value: Any = None
    to: str | None
    note: str = ""


class AgentMapping:
    """The mapping of one agent: `settings` are its keys in `circadia.yaml`, `lines` the report."""

    def __init__(self, folder: AgentFolder, *, zone: str, hold_to_models: bool) -> None:
        self.settings: dict[str, Any] = {"timezone": zone} if zone != "UTC" else {}
        self.lines: list[MappedLine] = []
        self._folder = folder
        self._zone = zone
        self._hold = hold_to_models
        self._models: list[str] = []
        self._coordination: dict[str, Any] = {}
        if folder.fault is None:
            self._map()
        self.lines.sort(key=lambda line: (line.file != CONFIG, line.line is None, line.line or 0))

    def leave_out(self, fault: str) -> None:
        """Report first that the agent is left out, and why, and mark all its lines as not mapped."""
        self.settings = {}
        lines, self.lines = [replace(line, to=None) for line in self.lines], []
        self._add_line((), None, None, f"{fault}; the agent is left out")
        self.lines += lines

    def _map(self) -> None:
        known: dict[str, Callable[[str, Any], None]] = {
            "pulse_blackouts": self._blackouts,
            "pulse_container_timeout_ms": self._timeout,
            "pulse_max_consecutive_skips": self._skips,
            "coordination": self._coordinate,
            **dict.fromkeys(_MODELS, self._model),
            **dict.fromkeys(_UNMAPPED, lambda key, value: self._add_line((key,), value, None, _UNMAPPED[key])),
        }
        routine = ("pulse_enabled", "pulse_interval_minutes", "pulse_offset_minutes", "pulse_one_offs")
        for key, value in self._folder.config.items():
            if key in known:
                known[key](key, value)
            elif key not in routine:
                self._add_line((key,), value, None, f"unknown key{did_you_mean(key, [*known, *routine])}")
        if any(key in self._folder.config for key in routine):
            self._routines()
        elif self._folder.pulse is not None:
            self._add_file_line(PULSE, None, f"no pulse_* key in {CONFIG} says when")
        if self._models:
            self.settings["models"] = self._models
        if self._coordination:
            self.settings["coordination"] = self._coordination
        for name in self._folder.channels:
            self._add_file_line(name, None, "a channel to people; Circadia has none")

    def _routines(self) -> None:
        """Add the routine `pulse`, and `pulse one-offs` for single instants."""
        config = self._folder.config
        on = config.get("pulse_enabled") is not False
        every = self._every(config.get("pulse_interval_minutes"))
        routine: dict[str, Any] = {"name": "pulse", "every_seconds": every}
        offset = self._offset(config.get("pulse_offset_minutes"), every)
        if offset:
            routine["offset_seconds"] = offset
        if self._zone != "UTC":
            routine["anchor"] = "2024-01-01T00:00:00+00:00"  # DjinnBot counts from midnight UTC
        more: dict[str, Any] = {} if on else {"enabled": False}
        if self._folder.pulse:
            more["instructions"] = self._folder.pulse
            fields = "; its {{…}} stay as they are" if "{{" in self._folder.pulse else ""
            note = f"DjinnBot's own tools that it names do not exist here{fields}"
            self._add_file_line(PULSE, "routines[pulse].instructions", note)
        if "pulse_enabled" in config:
            note = "" if self._folder.pulse else f"without {PULSE}: runs only while something is unread"
            self._add_line(("pulse_enabled",), config["pulse_enabled"], "routines[pulse].enabled", note)
        elif self._folder.pulse is None:
            self._add_file_line(PULSE, None, f"no {PULSE}: the routine runs only while something is unread")
        routines = [{**routine, **more}]
        instants = self._one_offs(config.get("pulse_one_offs"))
        if instants:
            routines.append({"name": "pulse one-offs", "at": instants, **more})
        self.settings["routines"] = routines

    def _every(self, minutes: object) -> int:
        path, to = ("pulse_interval_minutes",), "routines[pulse].every_seconds"
        number = _number(minutes)
        if not number:
            if minutes is not None:
                self._add_line(path, minutes, None, f"no number; {_MINUTES} minutes, as in DjinnBot")
            return _MINUTES * 60
        seconds = min(max(round(number * 60), MIN_EVERY_SECONDS), MAX_EVERY_SECONDS)
        note = f"out of range; {seconds} s" if seconds != round(number * 60) else ""
        if not note and _DAY_MINUTES * 60 % seconds:
            note = "continues over midnight; DjinnBot starts again at each midnight UTC"
        self._add_line(path, minutes, to, note)
        return seconds

    def _offset(self, minutes: object, every: int) -> int:
        path, to = ("pulse_offset_minutes",), "routines[pulse].offset_seconds"
        if minutes is None:
            return 0
        number = _number(minutes)
        if number is None or number < 0:
            self._add_line(path, minutes, None, "no number of minutes")
            return 0
        offset = round(number * 60) % every
        self._add_line(
            path, minutes, to, "" if offset == round(number * 60) else f"longer than the interval; {offset} s"
        )
        return offset

    def _one_offs(self, values: object) -> list[str]:
        instants: list[str] = []
        for number, entry in enumerate(_list(values)):
            path = ("pulse_one_offs", number)
            instant = _instant(entry)
            if instant is None:
                self._add_line(path, entry, None, "no date and time; write one such as 2026-12-23T09:00:00Z")
            else:
                instants.append(instant)
                self._add_line(path, entry, "routines[pulse one-offs].at")
        if not _list(values) and "pulse_one_offs" in self._folder.config:
            self._add_line(("pulse_one_offs",), values, None, "empty")
        return instants

    def _blackouts(self, key: str, value: object) -> None:
        blackouts: list[dict[str, Any]] = []
        for number, entry in enumerate(_list(value)):
            blackout, note = _blackout(entry)
            fault = note or _validation_fault(BlackoutSettings, blackout)
            if fault:
                self._add_line((key, number), entry, None, fault)
                continue
            blackouts.append(blackout)
            overnight = "weekdays" in blackout and blackout["end_time"] <= blackout["start_time"]
            note = "its weekdays are those on which it starts; in DjinnBot those of each instant" if overnight else ""
            self._add_line((key, number), entry, f"blackouts[{len(blackouts) - 1}]", note)
        if not _list(value):
            self._add_line((key,), value, None, "empty")
        if blackouts:
            self.settings["blackouts"] = blackouts

    def _timeout(self, key: str, value: object) -> None:
        number = _number(value)
        if number is None or not 0 < number / 1000 <= MAX_TIMEOUT_SECONDS:
            self._add_line((key,), value, None, "no number of milliseconds up to a day")
            return
        self._coordination["pulse_timeout_seconds"] = number / 1000
        self._add_line((key,), value, "coordination.pulse_timeout_seconds", "in seconds; also applies to wakes")

    def _skips(self, key: str, value: object) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            self._add_line((key,), value, None, "no number of 1 or more")
            return
        self.settings["max_consecutive_skips"] = value
        self._add_line((key,), value, "max_consecutive_skips")

    def _coordinate(self, key: str, value: object) -> None:
        if not isinstance(value, Mapping):
            self._add_line((key,), value, None, "holds no keys")
            return
        for name, inner in cast("Mapping[str, object]", value).items():
            if name == _GUARDRAILS and isinstance(inner, Mapping):
                for limit, number in cast("Mapping[str, object]", inner).items():
                    self._set((key, name, str(limit)), number, Guardrails)
            else:
                self._set((key, str(name)), inner, WakeRules)

    def _set(self, path: tuple[str, ...], value: object, section: type[BaseModel]) -> None:
        """Copy a key that has the same name in Circadia."""
        name = path[-1]
        if name not in section.model_fields:
            self._add_line(path, value, None, f"unknown key{did_you_mean(name, list(section.model_fields))}")
            return
        fault = _validation_fault(section, {name: value})
        if fault:
            self._add_line(path, value, None, fault)
            return
        into = self._coordination
        for group in path[1:-1]:
            into = into.setdefault(group, {})
        into[name] = value
        self._add_line(path, value, ".".join(path))

    def _model(self, key: str, value: object) -> None:
        provider, slash, model = value.partition("/") if isinstance(value, str) else ("", "", "")
        if not slash:
            self._add_line((key,), value, None, "the agent's own program names its model")
        elif not self._hold:
            self._add_line(
                (key,), value, None, f"the agent asks for it at /llm/{provider}; --hold-to-models allows no other"
            )
        else:
            if model not in self._models:
                self._models.append(model)
            self._add_line((key,), value, "models", f"the agent asks for it at /llm/{provider}")

    def _add_line(self, path: Path_, value: object, to: str | None, note: str = "") -> None:
        key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")
        line = self._folder.lines.get(path)
        self.lines.append(
            MappedLine(agent=self._folder.name, file=CONFIG, line=line, key=key, value=value, to=to, note=note)
        )

    def _add_file_line(self, file: str, to: str | None, note: str) -> None:
        self.lines.append(MappedLine(agent=self._folder.name, file=file, to=to, note=note))


def providers_of(folders: Sequence[AgentFolder]) -> list[str]:
    """Return the providers in the names of the models."""
    names = (folder.config.get(key) for folder in folders for key in _MODELS)
    return sorted({name.split("/")[0] for name in names if isinstance(name, str) and "/" in name})


def _blackout(entry: object) -> tuple[dict[str, Any], str]:
    if not isinstance(entry, Mapping):
        return {}, "holds no keys"
    fields = {str(key): value for key, value in cast("Mapping[object, Any]", entry).items()}
    unknown = sorted(fields.keys() - _BLACKOUT_KEYS)
    if unknown:
        return {}, f"has unknown keys: {', '.join(unknown)}"
    start = fields.get("start_time", fields.get("startTime", fields.get("start")))
    end = fields.get("end_time", fields.get("endTime", fields.get("end")))
    if start is None or end is None:
        return {}, "has no start and end"
    label = {"label": str(fields["label"])} if fields.get("label") else {}
    dates = _instant(start), _instant(end)
    if dates[0] is not None and dates[1] is not None:
        return {**label, "start": dates[0], "end": dates[1]}, ""
    start, end = _time(start), _time(end)
    if start == end:
        return {}, "starts when it ends: empty in DjinnBot, but a whole day in Circadia"
    days = fields.get("days_of_week", fields.get("daysOfWeek"))
    if days is None:
        return {**label, "start_time": start, "end_time": end}, ""
    if not all(isinstance(day, int) and 0 <= day <= 6 for day in _list(days)) or not _list(days):
        return {}, "its days_of_week are not 0 (Sunday) to 6"
    return {**label, "start_time": start, "end_time": end, "weekdays": [_WEEKDAYS[day] for day in _list(days)]}, ""


def _time(value: object) -> str:
    """Return HH:MM, also for the number that YAML 1.1 makes of an unquoted 23:00."""
    if isinstance(value, int) and 0 <= value <= _DAY_MINUTES:
        return f"{value // 60:02d}:{value % 60:02d}"
    hour, colon, minute = str(value).partition(":")
    return f"{hour:0>2}:{minute}" if colon else str(value)


def _instant(value: object) -> str | None:
    """Return a date and time as ISO 8601, or None."""
    if isinstance(value, date):
        return value.isoformat() if isinstance(value, datetime) else f"{value.isoformat()}T00:00:00"
    if not isinstance(value, str) or "-" not in value:
        return None
    try:
        return datetime.fromisoformat(value).isoformat()
    except ValueError:
        return None


def _validation_fault(section: type[BaseModel], values: Mapping[str, object]) -> str:
    """Return the section's first error for these keys, or an empty string."""
    try:
        section.model_validate(values)
    except ValidationError as error:
        return str(error.errors()[0]["msg"])
    return ""


def _number(value: object) -> float | None:
    """Return a finite number of a reasonable size, or None."""
    number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _MAX_NUMBER
    return cast("float", value) if number else None


def _list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
