"""`circadia config`: the configuration, and the source of each value."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Final, cast
from urllib.parse import urlsplit

import typer
from rich.text import Text

from circadia.cli.machine.serve import config_file, read_config
from circadia.cli.terminal.output import Listing, Output, display_text, format_setting, table
from circadia.records.agent import AgentPolicy
from circadia.settings import Settings, load_settings

app = typer.Typer(no_args_is_help=True, help="Check and show the configuration.")

HIDDEN: Final = "(hidden)"
_COLOURS: Final = {"file": "green", "defaults": "cyan"}

File = Annotated[Path | None, typer.Argument(metavar="FILE", help="Configuration; defaults to `circadia.yaml`.")]


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


@app.command(epilog="Example: circadia config check circadia.yaml")
def check(file: File = None) -> Output:
    """Check the configuration as the server reads it. A wrong key is reported with its path and the nearest key."""
    path = config_file(file)
    settings = load_settings(path)
    summary = {
        "file": str(path) if path else None,
        "upstreams": list(settings.upstreams),
        "mcp_servers": list(settings.mcp_servers),
        "agents": list(settings.agents),
    }
    names = "; ".join(
        f"{key}: {display_text(summary[key]) or 'none'}" for key in ("upstreams", "mcp_servers", "agents")
    )
    where = path or "no file, the defaults"
    text = f"{where}: good. {names}\nRun `circadia doctor` to check whether this machine can serve it."
    return Output(summary, text)


@app.command(epilog="Example: circadia config show circadia.yaml")
def show(file: File = None) -> Output:
    """Print each setting with its value and the source of the value."""
    path = config_file(file)
    values = list(with_sources(load_settings(path), read_config(path)))

    def show_values(_: object) -> Listing:
        typer.echo(f"file: {path or 'none'}")
        rows = [
            (row.key, format_setting(row.value), Text(row.source, _COLOURS.get(row.source, "dim"))) for row in values
        ]
        return table(("key", "value", "source"), rows)

    document = {"file": str(path) if path else None, "settings": [asdict(setting) for setting in values]}
    return Output(document, show_values)


def with_sources(settings: Settings, raw: Mapping[str, Any]) -> Iterator[EffectiveSetting]:
    for path, value in _leaves((), settings.model_dump(mode="json")):
        yield EffectiveSetting(key=".".join(path), value=_mask_secret(path, value), source=_source(path, raw))


def _leaves(path: tuple[str, ...], value: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, dict) and value:
        for key, inner in cast("dict[str, Any]", value).items():
            yield from _leaves((*path, key), inner)
    else:
        yield path, value


def _source(path: tuple[str, ...], raw: Mapping[str, Any]) -> str:
    if _is_set_in_file(raw, path):
        return "file"
    own_policy = path[0] == "agents" and path[-1] in AgentPolicy.model_fields
    return "defaults" if own_policy and _is_set_in_file(raw, ("defaults", path[-1])) else "built in"


def _is_set_in_file(raw: object, path: tuple[str, ...]) -> bool:
    for part in path:
        if not isinstance(raw, Mapping) or part not in raw:
            return False
        raw = cast("Mapping[str, object]", raw)[part]
    return True


def _mask_secret(path: tuple[str, ...], value: Any) -> Any:
    if path[0] == "mcp_servers" and path[2:3] == ("env",) and len(path) > 3:
        return HIDDEN
    if isinstance(value, str) and "://" in value and (password := urlsplit(value).password):
        return value.replace(f":{password}@", f":{HIDDEN}@")
    return value
