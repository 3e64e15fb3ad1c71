"""`circadia messages`: the messages of all agents that need a person."""

from enum import StrEnum
from typing import Annotated, Final

import typer

from circadia.cli.arguments import Limit
from circadia.cli.connection import RemoteServer
from circadia.cli.terminal.groups import NounGroup
from circadia.cli.terminal.output import Output, list_output, shorten, time_since
from circadia.clock import SystemClock
from circadia.schemas.inbox import UnhandledMessage

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
) -> Output:
    """List messages that nobody has handled, in all inboxes; dead letters by default."""
    states = [each.value for each in state or ()]
    page = server.list_pages(
        lambda client, place, count: client.list_unhandled_messages(states=states, before=place, limit=count),
        "messages",
        limit=limit,
    )
    columns = ("message", "to", "from", "priority", "age", "state", "text")
    nothing = f"no message is {' or '.join(states) or 'dead'}"
    return list_output(page, page.messages, columns, _row, nothing=nothing, more=page.before is not None)


@app.command(epilog="Example: circadia messages requeue msg_0cwd7k")
def requeue(
    server: RemoteServer, message: Annotated[str, typer.Argument(metavar="MESSAGE", help="Message ID.")]
) -> Output:
    """Return a dead letter to its inbox, with new attempts. A high priority requests a wake again."""
    result = server.ask(lambda client: client.requeue_message(message))
    inboxes = ", ".join(result.requeued)
    text = f"{message} is unread again for {inboxes}" if inboxes else f"{message} was requeued before"
    return Output(result, text)


def _row(item: UnhandledMessage) -> tuple[object, ...]:
    age = time_since(item.at, SystemClock().now())
    return (item.id, item.to, item.sender, item.priority, age, item.state, shorten(item.content, _LETTERS))
