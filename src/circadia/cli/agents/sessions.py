"""`circadia sessions`: groups of agents with their threads."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from circadia import settings
from circadia.cli.agents.agents import agent_table
from circadia.cli.connection import RemoteServer
from circadia.cli.terminal.groups import NounGroup
from circadia.cli.terminal.output import Output, console, list_output, local_time, note, state_text, table
from circadia.client import Client
from circadia.errors import InvalidRequest
from circadia.schemas.sessions import SessionCreated, SessionDetail, SessionView, ThreadView

app = typer.Typer(cls=NounGroup)

Name = Annotated[str, typer.Argument(metavar="SESSION", help="Session name.")]


@app.command(epilog="Example: circadia sessions add team --agent lead --agent writer --sleepers 'all-but lead'")
def add(
    server: RemoteServer,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Session name; generated if omitted.")] = None,
    agent: Annotated[
        list[str] | None, typer.Option("--agent", metavar="NAME", help="Agent to create; may be repeated.")
    ] = None,
    sleepers: Annotated[
        str | None,
        typer.Option(
            "--sleepers",
            metavar="'all-but A,B'",
            help="Agents that start awake; all others start asleep and wake when they are added to a thread.",
        ),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="The whole graph as in REST, in YAML or JSON.")
    ] = None,
) -> Output:
    """Create a session with its agents and threads, and print each agent's token once."""
    graph = _graph(name, agent or (), sleepers, file)
    created = server.ask(
        lambda client: client.create_session(
            graph.get("name"),
            agents=graph.get("agents") or (),
            threads=graph.get("threads") or (),
            all_but=graph.get("all_but"),
        )
    )
    return Output(created, _show_created)


def _graph(name: str | None, agents: Sequence[str], sleepers: str | None, file: Path | None) -> Mapping[str, Any]:
    """Return the graph from the file or the options. Raises InvalidRequest for both, or for a wrong file."""
    if file is None:
        return {"name": name, "agents": [{"name": agent_name} for agent_name in agents], "all_but": _all_but(sleepers)}
    if agents or sleepers is not None:
        raise InvalidRequest("--file holds the whole graph; move --agent and --sleepers into the file")
    graph = _read_graph(file)
    known = {"name", "agents", "threads", "sleepers"}
    if unknown := sorted(set(graph) - known):
        raise InvalidRequest(f"{str(file)!r}: unknown key {unknown[0]!r}; known keys: {', '.join(sorted(known))}")
    preset = graph.get("sleepers")
    all_but = cast("Mapping[str, Any]", preset).get("all_but") if isinstance(preset, Mapping) else _all_but(preset)
    return {**graph, "name": name or graph.get("name"), "all_but": all_but}


def _read_graph(file: Path) -> dict[str, Any]:
    try:
        graph = settings.parse_yaml(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"cannot read {str(file)!r}: {error}") from error
    except ValueError as error:
        raise InvalidRequest(f"{str(file)!r} is neither YAML nor JSON: {error}") from error
    if not isinstance(graph, dict):
        raise InvalidRequest(f"{str(file)!r} must hold keys and values: name, agents, threads, sleepers")
    return cast("dict[str, Any]", graph)


def _all_but(preset: object) -> list[str] | None:
    if preset is None:
        return None
    word, _, names = preset.strip().partition(" ") if isinstance(preset, str) else ("", "", "")
    if word != "all-but":
        raise InvalidRequest(f"sleepers: {preset!r} is unknown; write 'all-but a,b', or 'all-but' for all")
    return [name.strip() for name in names.strip().removeprefix("[").removesuffix("]").split(",") if name.strip()]


def _show_created(created: SessionCreated) -> None:
    typer.echo(f"session {created.name}")
    if created.agents:
        rows = [(agent.name, state_text(agent.sleeping), agent.token) for agent in created.agents]
        console().print(table(("agent", "state", "token, shown only once"), rows))
    if created.threads:
        threads = [(thread.name, thread.id, thread.participants) for thread in created.threads]
        console().print(table(("thread", "id", "participants"), threads))
    for warning in created.warnings:
        note(f"warning: {warning}")


@app.callback(epilog="Example: circadia sessions --closed --json")
def sessions(
    server: RemoteServer, closed: Annotated[bool, typer.Option("--closed", help="Include closed sessions.")] = False
) -> Output:
    """List the sessions: groups of agents with their threads."""
    listed = server.ask(lambda client: client.list_sessions(closed=closed))
    columns = ("session", "status", "created", "last touched")
    return list_output({"sessions": listed}, listed, columns, _row, nothing="no session")


def _row(session: SessionView) -> tuple[object, ...]:
    status = "stalled" if session.stalled else session.status
    return session.name, status, local_time(session.created_at), local_time(session.touched_at)


@app.command(epilog="Example: circadia sessions show team")
def show(server: RemoteServer, session: Name = "default") -> Output:
    """Show a session with its agents and threads."""

    async def fetch_session(client: Client) -> tuple[SessionDetail, list[ThreadView]]:
        shown, threads = await client.show_session(session), await client.list_threads(session)
        if shown.next is not None:
            shown = shown.model_copy(update={"agents": await client.list_agents(session), "next": None})
        return shown, threads

    answer, threads = server.ask(fetch_session)

    def show_session(_: object) -> None:
        stalled = ", stalled: all its agents sleep and nobody acts" if answer.stalled else ""
        typer.echo(f"session {answer.name}, {answer.status}{stalled}")
        if answer.agents:
            console().print(agent_table(answer.agents))
        if threads:
            rows = [(thread.name, thread.status, thread.id, thread.participants) for thread in threads]
            console().print(table(("thread", "status", "id", "participants"), rows))

    return Output({**answer.model_dump(mode="json"), "threads": threads}, show_session)


@app.command(epilog="Example: circadia sessions close team")
def close(server: RemoteServer, session: Name) -> Output:
    """Close a session with its threads. Its agents' tokens stop working and their held calls end."""
    closed = server.ask(lambda client: client.close_session(session))
    return Output(closed, f"closed session {closed.name}")
