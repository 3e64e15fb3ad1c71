"""`circadia pulses`: bounded runs of agents."""

from typing import Annotated, Any

import typer
from rich.text import Text

from circadia.cli.remote.connection import RemoteServer
from circadia.cli.remote.paging import gather_pages
from circadia.cli.remote.reference import DEFAULT_SESSION, Session, full_reference
from circadia.cli.terminal.output import AsJson, console, format_duration, local_time, note, print_json, shorten, table
from circadia.client import Client
from circadia.records.pulse import PulseStatus

app = typer.Typer()

_COLOURS = {"succeeded": "green", "running": "cyan", "starting": "cyan", "failed": "red", "timed_out": "red"}
_LETTERS = 80
_COLUMNS = ("pulse", "admitted", "agent", "kind", "by", "for", "status", "ran", "attempt", "detail")


@app.callback(invoke_without_command=True, epilog="Example: circadia pulses --agent writer --status failed")
def pulses(
    server: RemoteServer,
    context: typer.Context,
    agent: Annotated[str | None, typer.Option("--agent", metavar="AGENT", help="Only pulses of this agent.")] = None,
    status: Annotated[PulseStatus | None, typer.Option("--status", help="Only pulses with this status.")] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Admitted since this date or time; UTC if no zone.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=100_000, metavar="N", help="Maximum number of rows.")
    ] = 50,
    session: Session = None,
    as_json: AsJson = False,
) -> None:
    """List the pulses of an agent, or of all agents in a session, newest first."""
    if context.invoked_subcommand is not None:
        return
    stands = None if status is None else status.value

    async def fetch_pulses(client: Client) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for each in [full_reference(agent, session)] if agent else await _agents(client, session or DEFAULT_SESSION):
            answer = await gather_pages(
                lambda place, count, each=each: client.list_pulses(
                    each, status=stands, since=since, before=place, limit=count
                ),
                key="pulses",
                limit=limit,
            )
            rows += answer["pulses"]
        return sorted(rows, key=lambda each: (each["created_at"], each["id"]), reverse=True)[:limit]

    rows = server.ask(fetch_pulses)
    if as_json:
        print_json({"pulses": rows})
    elif rows:
        console().print(table(_COLUMNS, [_row(each) for each in rows], numbers=("attempt",)))
    else:
        note("no pulse")


@app.command(epilog="Example: circadia pulses cancel pls_0cwd4f7k2m")
def cancel(
    server: RemoteServer,
    pulse: Annotated[str, typer.Argument(metavar="PULSE", help="Pulse ID.")],
    as_json: AsJson = False,
) -> None:
    """Stop a pulse. Its messages are unread again."""
    stopped = server.ask(lambda client: client.cancel_pulse(pulse))
    if as_json:
        print_json(stopped)
    else:
        typer.echo(f"pulse {stopped['id']} of {stopped['agent']}: {stopped['status']}")


async def _agents(client: Client, session: str) -> list[str]:
    return [f"{session}:{each['name']}" for each in await client.list_agents(session)]


def _row(pulse: dict[str, Any]) -> tuple[object, ...]:
    return (
        pulse["id"],
        local_time(pulse["created_at"]),
        pulse["agent"],
        pulse["kind"],
        pulse["by"],
        pulse["routine"] or pulse["reason"],
        Text(pulse["status"], _COLOURS.get(pulse["status"], "")),
        format_duration(pulse["run_seconds"]),
        pulse["attempt"],
        _shorten_detail(pulse["detail"]),
    )


def _shorten_detail(detail: str) -> str:
    """Return the first and last line; a failed program's detail is its last output, which ends with the cause."""
    lines = [line.strip() for line in detail.splitlines() if line.strip()]
    return " … ".join(shorten(line, _LETTERS) for line in (lines if len(lines) < 2 else (lines[0], lines[-1])))
