"""Reads the folders of DjinnBot's agents: `config.yml` with line numbers, and `PULSE.md`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import yaml

from circadia.errors import InvalidRequest

CONFIG = "config.yml"
PULSE = "PULSE.md"
_OTHER = ("slack.yml", "discord.yml", "telegram.yml", "signal.yml", "whatsapp.yml")
Path_ = tuple[str | int, ...]
_MOST_BYTES: Final = 2**18
"""Limit for one file; DjinnBot's own have a few thousand bytes."""
_MOST_LINES: Final = 100_000
"""Limit for keys and items, with aliases expanded."""


class _TooManyNodes(Exception):
    """The file has too many keys and items."""


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
    folders = [top] if _is_agent(top) else sorted(child for child in top.iterdir() if _is_agent(child))
    if not folders:
        raise InvalidRequest(f"no agent in {str(top)!r}; an agent is a folder with a {CONFIG}")
    return [_read_folder(folder.resolve()) for folder in folders]


def _is_agent(folder: Path) -> bool:
    return not folder.name.startswith(("_", ".")) and (folder / CONFIG).is_file()


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
        content = opened.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ValueError(f"it has more than {_MOST_BYTES} bytes")
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
    except (RecursionError, _TooManyNodes):
        return {}, {}, "has an alias in what it stands for, is too deep or stands for too much; write it out"
    if not isinstance(config, dict):
        return {}, {}, "holds no keys"
    return cast("dict[str, Any]", config), lines, None


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in cast("dict[object, object]", value).items()}
    return [_plain(item) for item in cast("list[object]", value)] if isinstance(value, list) else value


def _note_lines(path: Path_, node: object, lines: dict[Path_, int]) -> None:
    """Record the line of each key and item below the node. Raises _TooManyNodes."""
    if len(lines) > _MOST_LINES:
        raise _TooManyNodes
    if isinstance(node, yaml.MappingNode):
        for key, value in cast("list[tuple[yaml.ScalarNode, yaml.Node]]", node.value):
            inner = (*path, str(key.value))
            lines[inner] = key.start_mark.line + 1
            _note_lines(inner, value, lines)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(cast("list[yaml.Node]", node.value)):
            lines[*path, number] = value.start_mark.line + 1
            _note_lines((*path, number), value, lines)
