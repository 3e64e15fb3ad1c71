"""`circadia sleep` and `circadia wake`: an agent's sleep state."""

from typing import Annotated

import typer

from circadia.cli.remote.connection import RemoteServer
from circadia.cli.remote.reference import DEFAULT_SESSION, Session, group_by_session
from circadia.cli.terminal.output import AsJson, console, note, print_json, state_text, table, time_since
from circadia.client import Client
from circadia.clock import SystemClock
from circadia.errors import InvalidRequest
from circadia.schemas.agents import SleepingView

app = typer.Typer()

Agents = Annotated[list[str] | None, typer.Argument(metavar="AGENT", help="Agents, each as `name` or `session:name`.")]
All = Annotated[bool, typer.Option("--all", help="All agents in the session.")]


@app.command(epilog="Example: circadia sleep writer team:reviewer")
def sleep(
    server: RemoteServer, agents: Agents = None, every: All = False, session: Session = None, as_json: AsJson = False
) -> None:
    """Put agents to sleep. Their next calls are held until they wake."""
    targets = _agents_by_session(agents, session, every=every)
    _show(server.ask(lambda client: _set(client, targets, sleeping=True)), as_json=as_json)


@app.command(epilog="Example: circadia wake --all --session team")
def wake(
    server: RemoteServer, agents: Agents = None, every: All = False, session: Session = None, as_json: AsJson = False
) -> None:
    """Wake agents. Held calls continue in order; launchers start a pulse."""
    targets = _agents_by_session(agents, session, every=every)
    _show(server.ask(lambda client: _set(client, targets, sleeping=False)), as_json=as_json)


def _agents_by_session(agents: list[str] | None, session: str | None, *, every: bool) -> dict[str, list[str] | None]:
    """Return the names to set in each session; None means all agents of the session."""
    if every == bool(agents):
        raise InvalidRequest("name at least one agent, or use --all (and not both)")
    return {session or DEFAULT_SESSION: None} if every else {**group_by_session(agents or (), session)}


async def _set(client: Client, wanted: dict[str, list[str] | None], *, sleeping: bool) -> list[SleepingView]:
    """Set the agents; the agents of one session change together or, if one may not be set, not at all."""
    return [
        state for session, names in wanted.items() for state in await client.set_many_sleeping(session, sleeping, names)
    ]


def _show(states: list[SleepingView], *, as_json: bool) -> None:
    if as_json:
        print_json({"agents": states})
        return
    now = SystemClock().now()
    rows = [
        (state.session, state.agent, state_text(state.sleeping), time_since(state.since, now), state.held)
        for state in states
    ]
    console().print(table(("session", "agent", "state", "for", "held"), rows, numbers=("held",)))
    for state in states:
        if state.pulse is not None:
            typer.echo(f"{state.agent} wakes with its pulse {state.pulse}.")
    if unconfirmed := sorted({gateway for state in states for gateway in state.unconfirmed}):
        note(f"warning: these gateways have not confirmed, and may send calls for a second: {', '.join(unconfirmed)}")
