"""`circadia import djinnbot`: reads, maps, reports, and writes the section `agents`."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer
import yaml
from rich.console import Console
from rich.text import Text

from circadia.cli.import_djinnbot.mapping import AgentMapping, Line, providers_of
from circadia.cli.import_djinnbot.reading import AgentFolder, agent_folders
from circadia.cli.output import AsJson, console, note, print_json, shown, table
from circadia.errors import Conflict, InvalidRequest
from circadia.records.schedule import zone_named
from circadia.settings import settings_from

app = typer.Typer(no_args_is_help=True, help="Take over what another system's configuration says.")

_VALUE_LETTERS = 40
_UNCUT = 10_000


@app.callback()
def take_over() -> None:
    """Take over what another system's configuration says."""


@app.command(epilog="Example: circadia import djinnbot ~/djinnbot --write circadia.yaml")
def djinnbot(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of DjinnBot, of its agents, or of one agent.")],
    write: Annotated[
        Path | None, typer.Option("--write", metavar="FILE", help="Write the section `agents` to this new file.")
    ] = None,
    timezone: Annotated[
        str, typer.Option("--timezone", metavar="ZONE", help="Zone of the blackouts: that of DjinnBot's machine.")
    ] = "UTC",
    hold_to_models: Annotated[
        bool, typer.Option("--hold-to-models", help="Allow each agent the models that its file names, and no other.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Map DjinnBot's agents to the section `agents` of circadia.yaml, and tell of each line what became of it."""
    zone_named(timezone)
    folders = agent_folders(folder.expanduser())
    mappings = [AgentMapping(each, zone=timezone, hold_to_models=hold_to_models) for each in folders]
    agents = {_name(each): mapping.settings for each, mapping in zip(folders, mappings, strict=True)}
    settings_from({"agents": agents})  # what the server would refuse is a fault here
    lines = [line for mapping in mappings for line in mapping.lines]
    text = yaml.dump({"agents": agents}, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
    if write is not None:
        _write(write, text)
    if as_json:
        print_json({"agents": agents, "lines": [asdict(each) for each in lines], "written": str(write or "") or None})
    elif write is None:
        _report(lines, folders, Console(stderr=True, highlight=False, width=None if _is_terminal() else _UNCUT))
        typer.echo(text, nl=False)
    else:
        _report(lines, folders, console())
        typer.echo(f"wrote {str(write)!r}; `circadia config check` reads it")


def _name(folder: AgentFolder) -> str:
    """Return the name that the agent has here."""
    return folder.name.lower().replace(" ", "-")


def _write(file: Path, text: str) -> None:
    """Write a new file.

    Raises:
        Conflict: there is one. InvalidRequest: it cannot be written.
    """
    try:
        with file.expanduser().open("x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError as error:
        raise Conflict(f"{str(file)!r} exists; name a new file and merge them by hand") from error
    except OSError as error:
        raise InvalidRequest(f"cannot write {str(file)!r}: {error}") from error


def _report(lines: Sequence[Line], folders: Sequence[AgentFolder], where: Console) -> None:
    """Tell of each line what became of it, and what there is to do besides."""
    for folder in folders:
        mine = [each for each in lines if each.agent == folder.name]
        mapped = sum(each.to is not None for each in mine)
        where.print(Text(f"{shown(folder.name)}: {mapped} of {len(mine)} mapped", "bold"))
        rows = [
            (
                each.line if each.line is not None else each.file,
                each.key,
                _short(each.value),
                Text(f"→ {each.to}", "green") if each.to else Text("not mapped", "yellow"),
                each.note or "",
            )
            for each in mine
        ]
        where.print(table(("line", "key", "value", "became", "note"), rows))
    providers = providers_of(folders)
    if providers:
        note(f"models are of {', '.join(providers)}: define `upstreams` of these names for them")
    note("pulses open the gates of resident agents until `coordination.launcher` names another way to run them")


def _short(value: Any) -> str:
    if value is None:
        return ""
    text = " ".join(str(value).split())
    return text if len(text) <= _VALUE_LETTERS else f"{text[:_VALUE_LETTERS]}…"


def _is_terminal() -> bool:
    return Console(stderr=True).is_terminal


def _text_node(dumper: Any, value: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as they stand."""

    yaml_representers: ClassVar[dict[Any, Any]] = {**yaml.SafeDumper.yaml_representers, str: _text_node}
