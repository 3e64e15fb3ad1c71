"""Reads the folders of DjinnBot's agents: `config.yml` with its line numbers, and `PULSE.md`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import yaml

from circadia.errors import InvalidRequest

CONFIG = "config.yml"
PULSE = "PULSE.md"
_OTHER = ("slack.yml", "discord.yml", "telegram.yml", "signal.yml", "whatsapp.yml")
Path_ = tuple[str | int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentFolder:
    """What the folder of one agent says.

    Attributes:
        name: The folder's name, which is the agent's.
        config: `config.yml`, parsed; empty where there is none.
        lines: The line of each key and item in it, by path.
        pulse: `PULSE.md`, if there is one.
        channels: Files of channels to people.
        fault: Why `config.yml` cannot be read.
    """

    name: str
    config: Mapping[str, Any]
    lines: Mapping[Path_, int]
    pulse: str | None
    channels: tuple[str, ...]
    fault: str | None = None


def agent_folders(folder: Path) -> list[AgentFolder]:
    """Return the agents in the folder: that of one agent, `agents`, or one that has a folder `agents`.

    Raises:
        InvalidRequest: there is none.
    """
    top = folder / "agents" if (folder / "agents").is_dir() else folder
    if not top.is_dir():
        raise InvalidRequest(f"{str(folder)!r} is no folder; name that of DjinnBot, its `agents`, or one agent's")
    found = [top] if _is_agent(top) else sorted(each for each in top.iterdir() if _is_agent(each))
    if not found:
        raise InvalidRequest(f"no agent in {str(top)!r}; one is a folder with a {CONFIG}")
    return [_read(each.resolve()) for each in found]


def _is_agent(folder: Path) -> bool:
    return not folder.name.startswith(("_", ".")) and (folder / CONFIG).is_file()


def _read(folder: Path) -> AgentFolder:
    config, lines, fault = _parsed(folder / CONFIG)
    return AgentFolder(
        name=folder.name,
        config=config,
        lines=lines,
        pulse=_text(folder / PULSE) if (folder / PULSE).is_file() else None,
        channels=tuple(name for name in _OTHER if (folder / name).is_file()),
        fault=fault,
    )


def _text(file: Path) -> str | None:
    try:
        return "\n".join(line.rstrip() for line in file.read_text("utf-8").strip().splitlines())
    except (OSError, UnicodeDecodeError):
        return None


def _parsed(file: Path) -> tuple[Mapping[str, Any], dict[Path_, int], str | None]:
    """Return what the file says with the line of each key, and what is wrong with it."""
    try:
        text = file.read_text("utf-8")
        parsed: object = yaml.safe_load(text)
        loader: Any = yaml.SafeLoader(text)
        node: object = loader.get_single_node()
        config = _plain({} if parsed is None else parsed)
        lines: dict[Path_, int] = {}
        _note((), node, lines)
    except (OSError, UnicodeDecodeError) as error:
        return {}, {}, f"cannot be read: {error}"
    except (yaml.YAMLError, ValueError) as error:  # a ValueError is a date such as 2026-02-30
        return {}, {}, f"is not YAML: {' '.join(str(error).split())}"
    except RecursionError:
        return {}, {}, "has an alias in what it stands for, or is too deep; write it out"
    if not isinstance(config, dict):
        return {}, {}, "holds no keys"
    return cast("dict[str, Any]", config), lines, None


def _plain(value: object) -> object:
    """Return what was parsed with texts as its keys, as JSON has them."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in cast("dict[object, object]", value).items()}
    return [_plain(each) for each in cast("list[object]", value)] if isinstance(value, list) else value


def _note(path: Path_, node: object, lines: dict[Path_, int]) -> None:
    """Note the line of each key and item below the node."""
    if isinstance(node, yaml.MappingNode):
        for key, value in cast("list[tuple[yaml.ScalarNode, yaml.Node]]", node.value):
            inner = (*path, str(key.value))
            lines[inner] = key.start_mark.line + 1
            _note(inner, value, lines)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(cast("list[yaml.Node]", node.value)):
            lines[*path, number] = value.start_mark.line + 1
            _note((*path, number), value, lines)
