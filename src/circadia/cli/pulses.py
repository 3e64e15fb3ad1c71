"""`circadia pulses`: the bounded runs of agents."""

from typing import Annotated, Any

import typer
from rich.text import Text

from circadia.cli.connection import DEFAULT_URL, Token, Url
from circadia.cli.folder import Data
from circadia.cli.output import AsJson, console, lasted, local_time, note, print_json, table
from circadia.cli.reference import DEFAULT_SESSION, Session
from circadia.cli.rest import ask_rest, pages, whole
from circadia.client.connection import Connection
from circadia.records.pulse import PulseStatus

app = typer.Typer()

_COLOURS = {"succeeded": "green", "running": "cyan", "starting": "cyan", "failed": "red", "timed_out": "red"}
_COLUMNS = ("pulse", "admitted", "agent", "kind", "by", "for", "status", "ran", "attempt", "detail")


@app.callback(invoke_without_command=True, epilog="Example: circadia pulses --agent writer --status failed")
def pulses(
    context: typer.Context,
    agent: Annotated[str | None, typer.Option("--agent", metavar="AGENT", help="Of this agent only.")] = None,
    status: Annotated[PulseStatus | None, typer.Option("--status", help="That stand so only.")] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Admitted from this date or time on; UTC if no zone.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100_000, metavar="N", help="So many at most.")] = 50,
    session: Session = None,
    url: Url = DEFAULT_URL,
    token: Token = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """List the pulses of an agent, or of all agents of a session, the newest first."""
    if context.invoked_subcommand is not None:
        return
    query = {"status": None if status is None else status.value, "since": since}

    async def read(rest: Connection) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for each in [whole(agent, session)] if agent else await _agents(rest, session or DEFAULT_SESSION):
            answer = await pages(rest, "agents", each, "pulses", key="pulses", query=query, limit=limit)
            found += answer["pulses"]
        return sorted(found, key=lambda each: (each["created_at"], each["id"]), reverse=True)[:limit]

    found = ask_rest(url, token, data, read)
    if as_json:
        print_json({"pulses": found})
    elif found:
        console().print(table(_COLUMNS, [_row(each) for each in found], numbers=("attempt",)))
    else:
        note("no pulse")


@app.command(epilog="Example: circadia pulses cancel pls_0cwd4f7k2m")
def cancel(
    pulse: Annotated[str, typer.Argument(metavar="PULSE", help="Key of the pulse.")],
    url: Url = DEFAULT_URL,
    token: Token = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Stop a pulse; its messages are unread again."""
    stopped = ask_rest(url, token, data, lambda rest: rest.call("POST", "pulses", pulse, "cancel"))
    if as_json:
        print_json(stopped)
    else:
        typer.echo(f"pulse {stopped['id']} of {stopped['agent']}: {stopped['status']}")


async def _agents(rest: Connection, session: str) -> list[str]:
    found = await rest.call("GET", "sessions", session, "agents")
    return [f"{session}:{each['name']}" for each in found["agents"]]


def _row(pulse: dict[str, Any]) -> tuple[object, ...]:
    return (
        pulse["id"],
        local_time(pulse["created_at"]),
        pulse["agent"],
        pulse["kind"],
        pulse["by"],
        pulse["routine"] or pulse["reason"],
        Text(pulse["status"], _COLOURS.get(pulse["status"], "")),
        lasted(pulse["run_seconds"]),
        pulse["attempt"],
        pulse["detail"],
    )
