"""`circadia send` and `circadia inbox`: a message for an agent, and the messages that wait for it."""

import sys
from datetime import datetime
from typing import Annotated

import typer
from rich.text import Text

from circadia.cli.arguments import Agent, Limit, Session, full_reference
from circadia.cli.connection import RemoteServer
from circadia.cli.terminal.output import Output, console, display_text, note, shorten, table, time_since
from circadia.client import Client
from circadia.clock import SystemClock
from circadia.errors import InvalidRequest
from circadia.records.message import DeliveryState, MessageType, Priority
from circadia.records.wake import WakeReason
from circadia.schemas.inbox import InboxItem, InboxPage
from circadia.schemas.wakes import SendOutcome

app = typer.Typer()

_LETTERS = 60
_COLOURS = {"urgent": "red", "high": "yellow", "low": "dim"}


@app.command(epilog="Example: circadia send writer 'the notes for 7.1 can start' --wake user_request")
def send(
    server: RemoteServer,
    to: Annotated[str, typer.Argument(metavar="TO", help="Recipient, as `name` or `session:name`.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Message text; `-` reads standard input.")],
    priority: Annotated[
        Priority, typer.Option("--priority", help="Message priority; high and urgent request a wake.")
    ] = Priority.NORMAL,
    kind: Annotated[MessageType, typer.Option("--type", help="Message type.")] = MessageType.INFO,
    wake: Annotated[
        WakeReason | None, typer.Option("--wake", metavar="REASON", help="Request a wake now, for this reason.")
    ] = None,
    override: Annotated[
        str | None, typer.Option("--override", metavar="WHY", help="With --wake: why to override the guardrails.")
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", metavar="KEY", help="Idempotency key: sends a repeat only once.")
    ] = None,
    session: Session = None,
) -> Output:
    """Send a message to an agent's inbox. With --wake, also request to wake the agent."""
    content = sys.stdin.read() if text == "-" else text
    reader, reason = full_reference(to, session), None if wake is None else wake.value
    if override is not None and reason is None:
        raise InvalidRequest("--override needs --wake with the reason for the wake")
    if override is not None and (priority is not Priority.NORMAL or kind is not MessageType.INFO):
        raise InvalidRequest("--override excludes --priority and --type; leave them out")

    async def put_message(client: Client) -> SendOutcome:
        if override is not None and reason is not None:
            return await client.wake_agent(reader, reason, content, override=override, key=key)
        return await client.send_direct(reader, content, priority=priority.value, type=kind.value, wake=reason, key=key)

    return Output(server.ask(put_message), _show_outcome)


def _show_outcome(answer: SendOutcome) -> None:
    typer.echo(display_text(answer.summary))
    ids = {name: getattr(answer, name) for name in ("message", "wake", "pulse") if getattr(answer, name)}
    note("  ".join(f"{name} {value}" for name, value in ids.items()))


@app.command(epilog="Example: circadia inbox writer --search deploy")
def inbox(
    server: RemoteServer,
    agent: Agent,
    every: Annotated[bool, typer.Option("--all", help="All states, oldest first; else unread, urgent first.")] = False,
    search: Annotated[
        str | None, typer.Option("--search", metavar="WORDS", help="Only messages that contain these words.")
    ] = None,
    limit: Limit = 50,
    session: Session = None,
) -> Output:
    """List the messages in an agent's inbox and count them by state. The operator's token marks none as seen."""
    states = [state.value for state in (DeliveryState if every else (DeliveryState.UNREAD,))]
    target, order = full_reference(agent, session), "oldest" if every else "urgent"
    page = server.list_pages(
        lambda client, place, count: client.show_inbox(
            target, states=states, words=search, order=order, after=place, limit=count
        ),
        "messages",
        limit=limit,
        cursor="after",
    )
    return Output(page, _show_inbox)


def _show_inbox(page: InboxPage) -> None:
    typer.echo(", ".join(f"{page.counts.get(state, 0)} {state.value}" for state in DeliveryState))
    if not page.messages:
        return
    now = SystemClock().now()
    columns = ("message", "from", "priority", "type", "age", "state", "text")
    console().print(table(columns, [_row(message, now) for message in page.messages]))
    if page.after is not None:
        note(f"more than {len(page.messages)}; --limit shows them")


def _row(item: InboxItem, now: datetime) -> tuple[object, ...]:
    return (
        item.id,
        item.sender,
        Text(item.priority, _COLOURS.get(item.priority, "")),
        item.type,
        time_since(item.at, now),
        item.state,
        shorten(item.content, _LETTERS),
    )
