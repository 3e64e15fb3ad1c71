"""`circadia sleep` and `circadia wake`: an agent's sleep state."""

from typing import Annotated

import typer

from circadia.cli.arguments import DEFAULT_SESSION, Session, group_by_session
from circadia.cli.connection import RemoteServer
from circadia.cli.terminal.output import Output, console, note, state_text, table, time_since
from circadia.client import Client
from circadia.clock import SystemClock
from circadia.errors import InvalidRequest
from circadia.schemas.agents import SleepingView

app = typer.Typer()

Agents = Annotated[list[str] | None, typer.Argument(metavar="AGENT", help="Agents, each as `name` or `session:name`.")]
All = Annotated[bool, typer.Option("--all", help="All agents in the session.")]


@app.command(epilog="Example: circadia sleep writer team:reviewer")
def sleep(server: RemoteServer, agents: Agents = None, every: All = False, session: Session = None) -> Output:
    """Put agents to sleep. Their next calls are held until they wake."""
    return _set_sleeping(server, agents, session, every=every, sleeping=True)


@app.command(epilog="Example: circadia wake --all --session team")
def wake(server: RemoteServer, agents: Agents = None, every: All = False, session: Session = None) -> Output:
    """Wake agents. Held calls continue in order; launchers start a pulse."""
    return _set_sleeping(server, agents, session, every=every, sleeping=False)


def _set_sleeping(
    server: RemoteServer, agents: list[str] | None, session: str | None, *, every: bool, sleeping: bool
) -> Output:
    """Set the agents; the agents of one session change together or, if one may not be set, not at all."""
    if every == bool(agents):
        raise InvalidRequest("name at least one agent, or use --all (and not both)")
    targets = {session or DEFAULT_SESSION: None} if every else group_by_session(agents or (), session)

    async def set_agents(client: Client) -> list[SleepingView]:
        return [
            state
            for where, names in targets.items()
            for state in await client.set_many_sleeping(where, sleeping, names)
        ]

    states = server.ask(set_agents)
    return Output({"agents": states}, lambda _: _show(states))


def _show(states: list[SleepingView]) -> None:
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
