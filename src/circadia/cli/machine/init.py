"""`circadia init sleeptime`: two agents, one that works with people and one that writes its memory meanwhile."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, cast

import typer
import yaml

from circadia.cli.machine.serve import config_file
from circadia.cli.terminal.output import AsJson, note, print_json
from circadia.errors import Conflict, InvalidRequest
from circadia.settings import Settings, load_settings
from circadia.settings.load import settings_from
from circadia.settings.yaml_parsing import parse_yaml

app = typer.Typer(no_args_is_help=True, help="Write configuration.")

SUFFIX: Final = "-sleeptime"
"""Behind the name of an agent, that of its sleep-time agent."""
BEFORE: Final = ".before"
"""Behind the name of a file that was written anew, that of what stood there."""


@app.callback()
def init() -> None:
    """Write configuration."""


@app.command(epilog="Example: circadia init sleeptime --agent writer --upstream openai --model gpt-5-mini")
def sleeptime(
    agent: Annotated[str, typer.Option("--agent", metavar="AGENT", help="The agent that works with people.")],
    bank: Annotated[
        str | None,
        typer.Option("--bank", metavar="BANK", help="Their bank; else the one in the file, or AGENT-memory."),
    ] = None,
    upstream: Annotated[
        str | None, typer.Option("--upstream", metavar="NAME", help="The only provider of the other one; else all.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="The only model that it may name; else all.")
    ] = None,
    turns: Annotated[
        int, typer.Option("--turns", min=1, max=10_000, metavar="N", help="Completed turns after which it is woken.")
    ] = 5,
    write: Annotated[bool, typer.Option("--write", help="Write the file, instead of printing what is new.")] = False,
    file: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Configuration; by default `circadia.yaml` here.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Give an agent a second one that alone may write its memory blocks, and works when nobody waits.

    The first one keeps its conversation with the person and cannot edit blocks. The second one is asleep until a pass
    has ended, and ends its work with memory_finish_edits.
    """
    path = config_file(file)
    settings = load_settings(path)
    known = bank or (settings.agents[agent].bank if agent in settings.agents else None)
    bank = known or f"{agent}-memory"
    added = two_agents(settings, agent, bank, upstream=upstream, model=model, turns=turns)
    raw = parse_yaml(path.read_text("utf-8")) if path else None
    whole = merge_config(cast("Mapping[str, Any]", raw) if isinstance(raw, dict) else {}, added)
    settings_from(whole)  # what is written must be a configuration
    if as_json:
        print_json(added)
    elif not write:
        typer.echo(_yaml(added), nl=False)
        note("put this into circadia.yaml, or add --write")
    if write:
        _write(path or Path("circadia.yaml"), whole)
    if not as_json:
        guessed = "" if known else f"; if {agent} is bound to another one already, name that with --bank"
        note(f"the bank of both is {bank!r}{guessed}")
        note(f"then restart the server; `circadia agent token {agent}{SUFFIX}` gives the second agent its token")


def two_agents(
    settings: Settings, agent: str, bank: str, *, upstream: str | None, model: str | None, turns: int
) -> dict[str, Any]:
    """Return what is to be added to the configuration.

    Raises:
        InvalidRequest: there is no such upstream.
        Conflict: the bank lets all its agents write blocks, or has another sleep-time agent.
    """
    if upstream is not None and upstream not in settings.upstreams:
        known = ", ".join(settings.upstreams) or "none"
        raise InvalidRequest(f"there is no upstream {upstream!r} in the configuration; there are: {known}")
    other = f"{agent}{SUFFIX}"
    stated = settings.banks.get(bank)
    if stated is not None and stated.hot_edits:
        raise Conflict(f"bank {bank!r} has hot_edits, so that each of its agents may write blocks; take that out first")
    if stated is not None and stated.sleeptime.agent not in (None, other):
        raise Conflict(f"bank {bank!r} has the sleep-time agent {stated.sleeptime.agent!r} already")
    second: dict[str, Any] = {
        "description": f"writes what {agent} has learned into its memory blocks while nobody waits",
        "bank": bank,
        "sleeptime": True,
        "capture": False,
        "sleep_events": ["agent_started"],
    }
    if upstream is not None:
        second["upstreams"] = [upstream]
    if model is not None:
        second["models"] = [model]
    passes = {"agent": other, "frequency_turns": turns, "operations": {"rethink": {"enabled": False}}}
    return {"banks": {bank: {"sleeptime": passes}}, "agents": {agent: {"bank": bank}, other: second}}


def merge_config(before: Mapping[str, Any], added: Mapping[str, Any]) -> dict[str, Any]:
    """Return both; where both say something, what is added holds."""
    found = dict(before)
    for name, value in added.items():
        there = found.get(name)
        inner = isinstance(value, Mapping) and isinstance(there, Mapping)
        found[name] = (
            merge_config(cast("Mapping[str, Any]", there), cast("Mapping[str, Any]", value)) if inner else value
        )
    return found


def _write(path: Path, whole: Mapping[str, Any]) -> None:
    """Write the file; what stood there is kept beside it, since comments are lost."""
    kept = path.with_name(path.name + BEFORE)
    try:
        if path.exists():
            if kept.exists():
                raise Conflict(f"{str(kept)!r} is there already; move it away first")
            kept.write_bytes(path.read_bytes())
            note(f"{path} is written anew, without its comments; what stood there is in {kept}")
        else:
            note(f"{path} is written")
        path.write_text(_yaml(whole), "utf-8")
    except OSError as error:
        raise InvalidRequest(f"cannot write {str(path)!r}: {error}") from error


def _yaml(document: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True)
