"""`circadia events`: the append-only event record."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Annotated

import typer
from rich.text import Text

from circadia.cli.arguments import OnlyAgent, OnlySession
from circadia.cli.connection import PAGE_ROWS, RemoteServer
from circadia.cli.terminal.output import AsJson, Output, compact, console, display_text, local_time, print_json_line
from circadia.client import Client
from circadia.records.event import EventType
from circadia.schemas.events import EventGap, EventView

app = typer.Typer()

MAX_EVENTS = 10_000
"""Events of one answer."""
_COLOURS = {"sleep_start": "blue", "held": "blue", "sleep_stop": "green", "admitted": "green"}
_WARNINGS = {"dropped", "upstream_error", "session_stalled"}


@app.command(epilog="Example: circadia events --follow --session team --type sleep_start --type sleep_stop")
def events(
    server: RemoteServer,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing new events until Ctrl-C.")] = False,
    after: Annotated[
        int | None, typer.Option("--after", min=0, metavar="N", help="Print all events after this number.")
    ] = None,
    last: Annotated[
        int, typer.Option("--last", min=0, max=MAX_EVENTS, metavar="N", help="Without --after, the N newest events.")
    ] = 20,
    session: OnlySession = None,
    agent: OnlyAgent = None,
    kinds: Annotated[
        list[EventType] | None, typer.Option("--type", metavar="TYPE", help="Of this kind only; may be repeated.")
    ] = None,
    as_json: AsJson = False,
) -> Output | None:
    """Print events, oldest first. With --follow and --json, one event per line."""
    types = [kind.value for kind in kinds or ()]

    async def fetch_newest(client: Client) -> list[EventView]:
        if last == 0:
            return []
        newest = await client.list_events(limit=last, order="newest", session=session, agent=agent, types=types)
        return newest[::-1]

    async def fetch_events(client: Client) -> list[EventView]:
        if after is None:
            return await fetch_newest(client)
        return await _fetch_after(partial(client.list_events, session=session, agent=agent, types=types), after)

    async def follow_on(client: Client) -> None:
        end = max((event.number for event in await client.list_events(limit=1, order="newest")), default=0)
        start = after
        if start is None:
            for event in await fetch_newest(client):
                _print(event, as_json=as_json)
                end = max(end, event.number)
            start = end
        stream = client.events(start, session=session, agent=agent, types=types, on_gap=_print_gap)
        async with aclosing(stream):
            async for event in stream:
                _print(event, as_json=as_json)

    if follow:
        server.ask(follow_on)
        return None
    return Output({"events": server.ask(fetch_events)}, _show_events)


def _print_gap(gap: EventGap) -> None:
    typer.echo(f"Events after {gap.after} and before {gap.oldest} have been deleted.", err=True)


def _show_events(document: Mapping[str, Sequence[EventView]]) -> None:
    for event in document["events"]:
        _print(event, as_json=False)


async def _fetch_after(list_events: Callable[..., Awaitable[list[EventView]]], number: int) -> list[EventView]:
    events: list[EventView] = []
    while True:
        page = await list_events(number, limit=PAGE_ROWS)
        events += page
        if len(page) < PAGE_ROWS:
            return events
        number = page[-1].number


def _print(event: EventView, *, as_json: bool) -> None:
    if as_json:
        print_json_line(event)
    else:
        console().print(event_line(event), soft_wrap=True)


def event_line(event: EventView, *, short: bool = False) -> Text:
    """Return an event as one line of text; `short` omits the number and the date."""
    kind = event.type
    colour = "yellow" if kind in _WARNINGS else _COLOURS.get(kind, "")
    where = ":".join(name for name in (event.session, event.agent) if name)
    return Text.assemble(
        (f"{local_time(event.at)[-8:]}  " if short else f"{event.number:>6}  {local_time(event.at)}  ", "dim"),
        (kind if short else f"{kind:<20}", colour),
        f" {display_text(where)}  ",
        (display_text(compact(event.data)), "dim"),
    )
