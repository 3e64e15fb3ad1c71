"""`circadia agents`: agents, their tokens and policies."""

from collections.abc import Sequence
from datetime import datetime
from itertools import chain
from typing import Annotated, Any, Final

import typer

from circadia import settings
from circadia.cli.agents import coordination, schedule
from circadia.cli.agents.programs import Program, fill_in, find_upstream
from circadia.cli.arguments import DEFAULT_SESSION, Agent, Session, split_reference
from circadia.cli.connection import RemoteServer
from circadia.cli.terminal.groups import NounGroup
from circadia.cli.terminal.output import (
    Output,
    console,
    display_text,
    format_duration,
    format_setting,
    note,
    state_text,
    table,
    time_since,
)
from circadia.client import Client
from circadia.clock import SystemClock
from circadia.errors import Forbidden, InvalidRequest
from circadia.records.agent import AgentPolicy, SleepEvent, WakeEvent
from circadia.schemas.agents import AgentCreated, AgentView
from circadia.schemas.fleet import UpstreamView
from circadia.schemas.wakes import AgentReasonView, WakeCircleView
from circadia.suggestions import did_you_mean

app = typer.Typer(cls=NounGroup)
app.add_typer(coordination.app)
app.add_typer(schedule.app)

NO_EVENT = "none"


def _event_names(events: type[SleepEvent] | type[WakeEvent]) -> str:
    return ", ".join((*(event.value for event in events), NO_EVENT))


SleepOn = Annotated[
    list[str] | None,
    typer.Option(
        "--sleep-on", metavar="EVENT", help=f"What puts it to sleep; may be repeated: {_event_names(SleepEvent)}."
    ),
]
WakeOn = Annotated[
    list[str] | None,
    typer.Option("--wake-on", metavar="EVENT", help=f"What wakes it; may be repeated: {_event_names(WakeEvent)}."),
]
Policy = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Policy key to set, such as max_calls_per_day=100 or may_wake=[writer]."
    ),
]
Description = Annotated[
    str | None, typer.Option("--description", metavar="TEXT", help="Description that other agents see.")
]


@app.command(epilog="Example: circadia agents add team:writer --wake-on mentioned --set max_calls_per_day=100")
def add(
    server: RemoteServer,
    agent: Agent,
    description: Description = None,
    sleep_on: SleepOn = None,
    wake_on: WakeOn = None,
    policy: Policy = None,
    program: Annotated[
        Program | None,
        typer.Option(
            "--for", metavar="PROGRAM", help=f"Print the settings of a coding agent instead: {', '.join(Program)}."
        ),
    ] = None,
    session: Session = None,
) -> Output:
    """Create an agent and print its token once."""
    where, name = split_reference(agent, session)
    changes = _policy(policy or [])

    async def create(client: Client) -> tuple[AgentCreated, list[UpstreamView]]:
        upstreams = await client.list_upstreams()  # before: nothing may fail once there is a token to show
        if program is not None:
            find_upstream(program, _usable(upstreams, changes.get("upstreams", "*")))
        created = await client.create_agent(
            where,
            name,
            description=description or "",
            sleep_events=_events(sleep_on, SleepEvent) or (),
            wake_events=_events(wake_on, WakeEvent),
            policy=changes,
        )
        return created, upstreams

    created, upstreams = server.ask(create)

    def show_created(_: object) -> None:
        state = "asleep" if created.sleeping else "awake"
        typer.echo(f"agent {created.reference}, {state}. Its token, shown only once:\n  {created.token}")
        usable = _usable(upstreams, created.policy.upstreams if created.policy is not None else ())
        url = server.url.rstrip("/")
        if program is None:
            _explain_environment(url, created.token, usable)
        else:
            typer.echo(f"\n{fill_in(program, url, find_upstream(program, usable), created.token)}", nl=False)

    return Output(created, show_created)


def _usable(upstreams: Sequence[UpstreamView], allowed: Sequence[str]) -> list[UpstreamView]:
    return [each for each in upstreams if "*" in allowed or each.name in allowed]


def _explain_environment(url: str, token: str, upstreams: Sequence[UpstreamView]) -> None:
    """Print what the agent's environment needs; of several providers with one API, the others as comments."""
    if upstreams:
        note("\nSet these in the agent's environment:")
    lines: dict[str, list[str]] = {}
    for each in upstreams:
        address = f"{each.url_variable}={url}{each.path}"
        if each.key_variable in lines:
            lines[each.key_variable].append(f"  # or, for {each.name}: {address}")
        else:
            lines[each.key_variable] = [f"  export {each.key_variable}={token}", f"  export {address}"]
    for line in chain.from_iterable(lines.values()):
        note(line)
    note(f"  # MCP: {url}/mcp, with `Authorization: Bearer` and the token")


def _events(words: list[str] | None, events: type[SleepEvent] | type[WakeEvent]) -> list[str] | None:
    """Return the names of events; `none` means an empty list. Raises InvalidRequest for an unknown event."""
    if words is None or words == [NO_EVENT]:
        return None if words is None else []
    known = [event.value for event in events]
    for word in words:
        if word not in known:
            raise InvalidRequest(f"no event {word!r}{did_you_mean(word, known)}")
    return words


def _policy(words: list[str]) -> dict[str, Any]:
    """Return the policy from `key=value` words, with values in YAML. Raises InvalidRequest for a wrong word."""
    values: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key not in AgentPolicy.model_fields:
            known = ", ".join(sorted(AgentPolicy.model_fields))
            raise InvalidRequest(f"--set {word!r} is no policy; write KEY=VALUE with one of {known}")
        try:
            values[key] = settings.parse_yaml(value)
        except ValueError as error:
            raise InvalidRequest(f"--set {word!r}: the value cannot be read: {error}") from error
    return values


@app.callback(epilog="Example: circadia agents --session team")
def agents(server: RemoteServer, session: Session = None) -> Output:
    """List the agents of a session with their state."""
    listed = server.ask(lambda client: client.list_agents(session or DEFAULT_SESSION))
    return Output({"agents": listed}, lambda _: agent_table(listed))


def describe_state(reason: AgentReasonView, now: datetime) -> str:
    """Return since when and why an agent sleeps or is awake, and what wakes it next."""
    lasted = format_duration((now - reason.since).total_seconds())
    line = f"{'asleep' if reason.sleeping else 'awake'} for {lasted}, {reason.because}"
    if reason.next is not None:
        left = format_duration(max(0.0, (reason.next.at - now).total_seconds()))
        return f"{line}; wakes next in {left} by {reason.next.by} ({reason.next.at.isoformat(timespec='seconds')})"
    return f"{line}; nothing planned wakes it, only: {', '.join(reason.wakers) or 'a person'}"


def describe_circle(circle: WakeCircleView) -> str:
    """Return who wakes whom in a circle, how often, and the limit that ends it."""
    limit = "without a limit" if circle.limit is None else f"of at most {circle.limit}"
    return (
        f"wakes in a circle today: {', '.join(circle.agents)}, {circle.wakes} times; "
        f"{circle.sender} and {circle.to}: {circle.used} {limit}"
    )


_CHANGED_BY: Final = {
    "event": "the event {actor}",
    "rest": "{actor}, over REST",
    "tool": "{actor}, with a tool",
    "pulse": "{actor}, by a pulse",
}
"""How the table names who changed the sleep state, by its cause."""


def agent_table(agents: list[AgentView]) -> Any:
    now = SystemClock().now()
    rows = [
        (
            agent.name,
            state_text(agent.sleeping) if agent.enabled else "disabled",
            time_since(agent.since, now),
            _CHANGED_BY.get(agent.cause, "{actor}").format(actor=agent.actor),
            agent.held,
            agent.wake_events or None,
            agent.description,
        )
        for agent in agents
    ]
    columns = ("agent", "state", "for", "changed by", "held", "wakes when", "description")
    return table(columns, rows, numbers=("held",))


@app.command(epilog="Example: circadia agents show team:writer")
def show(server: RemoteServer, agent: Agent, session: Session = None) -> Output:
    """Show an agent with its policy."""
    where, name = split_reference(agent, session)

    async def fetch(client: Client) -> tuple[AgentView, AgentReasonView | None, list[WakeCircleView]]:
        shown, reference = await client.show_agent(where, name), f"{where}:{name}"
        try:
            return shown, await client.explain_agent(reference), await client.list_wake_circles(agent=reference)
        except Forbidden:  # with an agent's token
            return shown, None, []

    shown, reason, circles = server.ask(fetch)
    document = shown.model_dump(mode="json", by_alias=True)
    if reason is not None:
        document |= {"because": reason.because, "wakers": reason.wakers, "wake": reason.wake}
        document["circles"] = [circle.model_dump(mode="json", by_alias=True) for circle in circles]
    return Output(document, lambda _: _show_agent(shown, reason, circles))


def _show_agent(agent: AgentView, reason: AgentReasonView | None, circles: Sequence[WakeCircleView]) -> None:
    console().print(agent_table([agent]))
    if reason is not None:
        typer.echo(display_text(describe_state(reason, SystemClock().now())))
    for circle in circles:
        typer.echo(display_text(describe_circle(circle)))
    if agent.sleep_events:
        typer.echo(f"falls asleep when {', '.join(agent.sleep_events)}")
    if agent.in_file:
        typer.echo("is reset to the configuration file at each start, and whenever that file changes")
    if agent.policy is not None:  # only the operator and the agent itself may see it
        rows = [(key, format_setting(value)) for key, value in agent.policy.model_dump(mode="json").items()]
        console().print(table(("policy", "value"), rows))


@app.command(epilog="Example: circadia agents change writer --disable")
def change(
    server: RemoteServer,
    agent: Agent,
    enable: Annotated[bool | None, typer.Option("--enable/--disable", help="Enable or disable the token.")] = None,
    description: Description = None,
    sleep_on: SleepOn = None,
    wake_on: WakeOn = None,
    policy: Policy = None,
    session: Session = None,
) -> Output:
    """Change the given settings of an agent. All others stay as they are."""
    where, name = split_reference(agent, session)
    changes = _policy(policy or [])
    changed = server.ask(
        lambda client: client.change_agent(
            where,
            name,
            enabled=enable,
            description=description,
            sleep_events=_events(sleep_on, SleepEvent),
            wake_events=_events(wake_on, WakeEvent),
            policy=changes or None,
        )
    )
    if changed.in_file and (description is not None or sleep_on or wake_on or changes):
        note("the configuration file takes this back when it changes or the server starts; change it there")
    return Output(changed, f"changed agent {changed.reference}")


@app.command(epilog="Example: circadia agents delete team:writer")
def delete(server: RemoteServer, agent: Agent, session: Session = None) -> Output:
    """Delete an agent. Its token stops working and its held calls end."""
    where, name = split_reference(agent, session)
    server.ask(lambda client: client.delete_agent(where, name))
    return Output({"deleted": {"session": where, "agent": name}}, f"deleted agent {where}:{name}")


@app.command("token", epilog="Example: circadia agents token writer")
def new_token(server: RemoteServer, agent: Agent, session: Session = None) -> Output:
    """Give an agent a new token and print it. The old token stops working."""
    where, name = split_reference(agent, session)
    token = server.ask(lambda client: client.rotate_token(where, name))
    return Output({"session": where, "agent": name, "token": token}, token)
