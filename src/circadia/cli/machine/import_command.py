"""`circadia import`: a whole database; with `djinnbot`, DjinnBot's configuration as the section `agents`."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer
import yaml
from rich.console import Console
from rich.text import Text

from circadia.cli.machine.database import OldFile, import_file
from circadia.cli.machine.djinnbot import AgentFolder, AgentMapping, MappedLine, agent_folders, providers_of
from circadia.cli.machine.serve import Config
from circadia.cli.terminal.groups import NounGroup
from circadia.cli.terminal.output import Output, console, display_text, note, shorten, table
from circadia.errors import ConfigError, Conflict, InvalidRequest
from circadia.records.schedule import load_zone
from circadia.settings import settings_from

app = typer.Typer(cls=NounGroup)

_VALUE_LETTERS = 40


@app.callback(epilog="Example: circadia import all.db --config circadia.yaml")
def import_database(file: OldFile, config: Config = None) -> Output:
    """Read a backup or an export into an empty PostgreSQL database; or import another system's configuration."""
    return import_file(file, config)


@app.command(epilog="Example: circadia import djinnbot ~/djinnbot --write circadia.yaml")
def djinnbot(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of DjinnBot, of its agents, or of one agent.")],
    write: Annotated[
        Path | None, typer.Option("--write", metavar="FILE", help="Write the section `agents` to this new file.")
    ] = None,
    timezone: Annotated[
        str, typer.Option("--timezone", metavar="ZONE", help="Time zone of DjinnBot's machine, for blackouts.")
    ] = "UTC",
    hold_to_models: Annotated[
        bool, typer.Option("--hold-to-models", help="Restrict each agent to the models that its file names.")
    ] = False,
) -> Output:
    """Map DjinnBot's agents to the section `agents` of circadia.yaml, and report how each line was mapped."""
    load_zone(timezone)
    folders = agent_folders(folder.expanduser())
    mappings = [AgentMapping(folder, zone=timezone, hold_to_models=hold_to_models) for folder in folders]
    agents, left_out = _accepted_agents(folders, mappings)
    lines = [line for mapping in mappings for line in mapping.lines]
    text = yaml.dump({"agents": agents}, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
    if write is not None:
        _write(write, text)

    def show(_: object) -> None:
        _report(lines, folders, left_out, console(stderr=write is None))
        if write is None:
            typer.echo(text, nl=False)
        else:
            typer.echo(f"wrote {str(write)!r}; check it with `circadia config check`")

    document = {"agents": agents, "lines": [asdict(line) for line in lines], "written": str(write or "") or None}
    error = None
    if left_out:
        counts = f"{len(left_out)} of {len(folders)} agents left out: {', '.join(map(repr, left_out))}"
        error = ConfigError(f"{counts}; the report says what to correct")
    return Output(document, show, error=error)


def _accepted_agents(
    folders: Sequence[AgentFolder], mappings: Sequence[AgentMapping]
) -> tuple[dict[str, Any], list[str]]:  # fmt: skip
    """Return the agents that the server would accept, and the folders of those that it would refuse."""
    agents: dict[str, Any] = {}
    left_out: list[str] = []
    for folder, mapping in zip(folders, mappings, strict=True):
        fault = _fault(folder, mapping, agents)
        if fault is None:
            agents[_name(folder)] = mapping.settings
        else:
            mapping.leave_out(fault)
            left_out.append(folder.name)
    return agents, left_out


def _fault(folder: AgentFolder, mapping: AgentMapping, accepted: Mapping[str, object]) -> str | None:
    if folder.fault is not None:
        return f"the file {folder.fault}"
    name = _name(folder)
    if name in accepted:
        return f"another agent is called {name!r} too; rename one of their folders"
    try:
        settings_from({"agents": {name: mapping.settings}})
    except ConfigError as error:
        return error.message.removeprefix(f"agents.{name}: ").replace(f"agents.{name}.", "")
    return None


def _name(folder: AgentFolder) -> str:
    return folder.name.lower().replace(" ", "-")


def _write(file: Path, text: str) -> None:
    """Write a new file. Raises Conflict if it exists, InvalidRequest if it cannot be written."""
    try:
        with file.expanduser().open("x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError as error:
        raise Conflict(f"{str(file)!r} exists; name a new file and merge them by hand") from error
    except OSError as error:
        raise InvalidRequest(f"cannot write {str(file)!r}: {error}") from error


def _report(
    lines: Sequence[MappedLine], folders: Sequence[AgentFolder], left_out: Sequence[str], where: Console
) -> None:  # fmt: skip
    for folder in folders:
        agent_lines = [line for line in lines if line.agent == folder.name]
        mapped = sum(line.to is not None for line in agent_lines)
        outcome = "left out" if folder.name in left_out else f"{mapped} of {len(agent_lines)} mapped"
        where.print(Text(f"{display_text(folder.name)}: {outcome}", "bold"))
        rows = [
            (
                line.line if line.line is not None else line.file,
                line.key,
                "" if line.value is None else shorten(str(line.value), _VALUE_LETTERS),
                Text(f"→ {line.to}", "green") if line.to else Text("not mapped", "yellow"),
                line.note or "",
            )
            for line in agent_lines
        ]
        where.print(table(("line", "key", "value", "mapped to", "note"), rows))
    providers = providers_of(folders)
    if providers:
        note(f"the models belong to {', '.join(providers)}: define `upstreams` of these names")
    note("pulses open the gates of resident agents; to run agents another way, set `coordination.launcher`")


def _text_node(dumper: Any, value: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


class _Dumper(yaml.SafeDumper):
    """Writes multi-line texts as literal blocks."""

    yaml_representers: ClassVar[dict[Any, Any]] = {**yaml.SafeDumper.yaml_representers, str: _text_node}
