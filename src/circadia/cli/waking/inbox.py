"""`circadia inbox`: the messages that wait for an agent."""

from datetime import datetime
from typing import Annotated

import typer
from rich.text import Text

from circadia.cli.remote.connection import RemoteServer
from circadia.cli.remote.paging import Limit, gather_pages
from circadia.cli.remote.reference import Agent, Session, full_reference
from circadia.cli.terminal.output import AsJson, console, note, print_json, shorten, table, time_since
from circadia.client import Client
from circadia.clock import SystemClock
from circadia.records.message import DeliveryState
from circadia.schemas.inbox import InboxItem, InboxPage

app = typer.Typer()

_LETTERS = 60
_COLOURS = {"urgent": "red", "high": "yellow", "low": "dim"}


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
    as_json: AsJson = False,
) -> None:
    """List the messages in an agent's inbox and count them by state. The operator's token marks none as seen."""
    states = [state.value for state in (DeliveryState if every else (DeliveryState.UNREAD,))]
    whose, order = full_reference(agent, session), "oldest" if every else "urgent"

    async def fetch_inbox(client: Client) -> InboxPage:
        return await gather_pages(
            lambda place, count: client.show_inbox(
                whose, states=states, words=search, order=order, after=place, limit=count
            ),
            key="messages",
            limit=limit,
            cursor="after",
        )

    page = server.ask(fetch_inbox)
    if as_json:
        print_json(page)
        return
    counts = page.counts
    typer.echo(", ".join(f"{counts.get(state, 0)} {state.value}" for state in DeliveryState))
    if not page.messages:
        return
    now = SystemClock().now()
    columns = ("message", "from", "priority", "type", "age", "state", "text")
    console().print(table(columns, [_row(message, now) for message in page.messages]))
    if page.after is not None:
        note(f"more than {limit}; --limit shows them")


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
