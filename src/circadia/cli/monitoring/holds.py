"""`circadia holds`: the held calls of sleeping agents."""

from typing import Annotated

import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text

from circadia.cli.remote.connection import RemoteServer
from circadia.cli.remote.reference import OnlyAgent, OnlySession
from circadia.cli.terminal.output import AsJson, console, format_duration, note, print_json, print_json_line, table
from circadia.client import Client
from circadia.clock import SystemClock
from circadia.schemas.holds import HoldList

app = typer.Typer()

LOOK_SECONDS = 1.0


@app.command(epilog="Example: circadia holds --watch")
def holds(
    server: RemoteServer,
    watch: Annotated[bool, typer.Option("--watch", help="Refresh every second until Ctrl-C.")] = False,
    session: OnlySession = None,
    agent: OnlyAgent = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=10_000, metavar="N", help="Maximum number of rows.")
    ] = 1000,
    as_json: AsJson = False,
) -> None:
    """List the calls that are held now, longest first."""

    async def fetch_holds(client: Client) -> HoldList:
        return await client.list_holds(session=session, agent=agent, limit=limit)

    async def watch_holds(client: Client) -> None:
        clock = SystemClock()
        while as_json:
            print_json_line(await fetch_holds(client))
            await clock.sleep(LOOK_SECONDS)
        with Live(console=console(), auto_refresh=False) as live:
            while True:
                live.update(_render_holds(await fetch_holds(client)), refresh=True)
                await clock.sleep(LOOK_SECONDS)

    if watch:
        server.ask(watch_holds)
        return
    answer = server.ask(fetch_holds)
    if as_json:
        print_json(answer)
    elif answer.holds:
        console().print(_render_holds(answer))
    else:
        note("no call is held")


def _render_holds(answer: HoldList) -> Group:
    rows = [
        (hold.reference, hold.door, hold.what, format_duration(hold.waited_seconds), hold.phase, hold.bytes)
        for hold in answer.holds
    ]
    listed = table(("agent", "door", "call", "held for", "phase", "bytes"), rows, numbers=("bytes",))
    left = answer.total - len(rows)
    return Group(listed, *([Text(f"… and {left} more", "dim")] if left > 0 else ()))
