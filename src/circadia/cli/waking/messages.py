"""`circadia messages`: the messages of all agents that need a person."""

from enum import StrEnum
from typing import Annotated, Final

import typer

from circadia.cli.remote.connection import RemoteServer
from circadia.cli.remote.paging import Limit, gather_pages
from circadia.cli.terminal.groups import NounGroup
from circadia.cli.terminal.output import AsJson, print_list, print_result, shorten, time_since
from circadia.client import Client
from circadia.clock import SystemClock
from circadia.schemas.inbox import UnhandledMessage, UnhandledPage

app = typer.Typer(cls=NounGroup)


class UnhandledState(StrEnum):
    DEAD = "dead"
    UNREAD = "unread"
    LEASED = "leased"


_LETTERS: Final = 60


@app.callback(epilog="Example: circadia messages --state dead")
def messages(
    server: RemoteServer,
    state: Annotated[
        list[UnhandledState] | None,
        typer.Option("--state", help="Only in this state: dead (the default), unread or leased; may be repeated."),
    ] = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List messages that nobody has handled, in all inboxes; dead letters by default."""
    states = [each.value for each in state or ()]

    async def fetch_messages(client: Client) -> UnhandledPage:
        return await gather_pages(
            lambda place, count: client.list_unhandled_messages(states=states, before=place, limit=count),
            key="messages",
            limit=limit,
        )

    page = server.ask(fetch_messages)
    columns = ("message", "to", "from", "priority", "age", "state", "text")
    nothing = f"no message is {' or '.join(states) or 'dead'}"
    print_list(page, page.messages, columns, _row, as_json=as_json, nothing=nothing, more=page.before is not None)


@app.command(epilog="Example: circadia messages requeue msg_0cwd7k")
def requeue(
    server: RemoteServer,
    message: Annotated[str, typer.Argument(metavar="MESSAGE", help="Message ID.")],
    as_json: AsJson = False,
) -> None:
    """Return a dead letter to its inbox, with new attempts. A high priority requests a wake again."""
    result = server.ask(lambda client: client.requeue_message(message))
    inboxes = ", ".join(result.requeued)
    text = f"{message} is unread again for {inboxes}" if inboxes else f"{message} was requeued before"
    print_result(result, text, as_json=as_json)


def _row(item: UnhandledMessage) -> tuple[object, ...]:
    age = time_since(item.at, SystemClock().now())
    return (item.id, item.to, item.sender, item.priority, age, item.state, shorten(item.content, _LETTERS))
