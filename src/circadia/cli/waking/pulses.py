"""`circadia pulses`: bounded runs of agents."""

from typing import Annotated

import typer
from rich.text import Text

from circadia.cli.arguments import DEFAULT_SESSION, Agent, Limit, Session, full_reference
from circadia.cli.connection import RemoteServer, gather_pages
from circadia.cli.terminal.groups import NounGroup
from circadia.cli.terminal.output import Output, format_duration, list_output, local_time, shorten
from circadia.client import Client
from circadia.records.pulse import PulseStatus
from circadia.schemas.wakes import PulseView

app = typer.Typer(cls=NounGroup)

_COLOURS = {"succeeded": "green", "running": "cyan", "starting": "cyan", "failed": "red", "timed_out": "red"}
_LETTERS = 80
_COLUMNS = ("pulse", "admitted", "agent", "kind", "by", "for", "status", "ran", "attempt", "detail")


@app.callback(epilog="Example: circadia pulses --agent writer --status failed")
def pulses(
    server: RemoteServer,
    agent: Annotated[str | None, typer.Option("--agent", metavar="AGENT", help="Only pulses of this agent.")] = None,
    status: Annotated[PulseStatus | None, typer.Option("--status", help="Only pulses with this status.")] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Admitted since this date or time; UTC if no zone.")
    ] = None,
    limit: Limit = 50,
    session: Session = None,
) -> Output:
    """List the pulses of an agent, or of all agents in a session, newest first."""
    targets, session_name = [full_reference(agent, session)] if agent else [], session or DEFAULT_SESSION

    async def fetch_pulses(client: Client) -> list[PulseView]:
        rows: list[PulseView] = []
        for target in targets or [f"{session_name}:{each.name}" for each in await client.list_agents(session_name)]:
            answer = await gather_pages(
                lambda place, count, target=target: client.list_pulses(
                    target, status=status and status.value, since=since, before=place, limit=count
                ),
                key="pulses",
                limit=limit,
            )
            rows += answer.pulses
        return sorted(rows, key=lambda pulse: (pulse.created_at, pulse.id), reverse=True)[:limit]

    rows = server.ask(fetch_pulses)
    return list_output({"pulses": rows}, rows, _COLUMNS, _row, nothing="no pulse", numbers=("attempt",))


@app.command(epilog="Example: circadia pulses start writer --reason 'write the notes for 7.1'")
def start(
    server: RemoteServer,
    agent: Agent,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Reason, which the pulse shows.")] = "manual",
    timeout_seconds: Annotated[
        float | None, typer.Option("--timeout-seconds", metavar="N", help="Time limit; defaults to the agent's.")
    ] = None,
    override: Annotated[
        str | None, typer.Option("--override", metavar="WHY", help="Why to override the guardrails.")
    ] = None,
    session: Session = None,
) -> Output:
    """Start a pulse of an agent, if its guardrails admit it."""
    target = full_reference(agent, session)
    outcome = server.ask(
        lambda client: client.start_pulse(target, reason, timeout_seconds=timeout_seconds, override=override)
    )
    return Output(outcome, outcome.summary)


@app.command(epilog="Example: circadia pulses cancel pls_0cwd4f7k2m")
def cancel(server: RemoteServer, pulse: Annotated[str, typer.Argument(metavar="PULSE", help="Pulse ID.")]) -> Output:
    """Stop a pulse. Its messages are unread again."""
    stopped = server.ask(lambda client: client.cancel_pulse(pulse))
    return Output(stopped, f"pulse {stopped.id} of {stopped.agent}: {stopped.status}")


def _row(pulse: PulseView) -> tuple[object, ...]:
    return (
        pulse.id,
        local_time(pulse.created_at),
        pulse.agent,
        pulse.kind,
        pulse.by,
        pulse.routine or pulse.reason,
        Text(pulse.status, _COLOURS.get(pulse.status, "")),
        format_duration(pulse.run_seconds),
        pulse.attempt,
        _shorten_detail(pulse.detail),
    )


def _shorten_detail(detail: str) -> str:
    """Return the first and last line; a failed program's detail is its last output, which ends with the cause."""
    lines = [line.strip() for line in detail.splitlines() if line.strip()]
    return " … ".join(shorten(line, _LETTERS) for line in (lines if len(lines) < 2 else (lines[0], lines[-1])))
