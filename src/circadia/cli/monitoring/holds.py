"""`circadia holds`: the held calls of sleeping agents."""

from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from circadia.cli.arguments import OnlyAgent, OnlySession
from circadia.cli.connection import RemoteServer
from circadia.cli.terminal.groups import NounGroup
from circadia.cli.terminal.output import AsJson, Output, console, format_duration, note, print_json_line, table
from circadia.client import Client
from circadia.clock import SystemClock
from circadia.schemas.fleet import HoldList

app = typer.Typer(cls=NounGroup)

POLL_SECONDS = 1.0


@app.callback(epilog="Example: circadia holds --watch")
def holds(
    server: RemoteServer,
    watch: Annotated[bool, typer.Option("--watch", help="Refresh every second until Ctrl-C.")] = False,
    session: OnlySession = None,
    agent: OnlyAgent = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=10_000, metavar="N", help="Maximum number of rows.")
    ] = 1000,
    as_json: AsJson = False,
) -> Output | None:
    """List the calls that are held now, longest first."""

    async def fetch_holds(client: Client) -> HoldList:
        return await client.list_holds(session=session, agent=agent, limit=limit)

    async def watch_holds(client: Client) -> None:
        clock = SystemClock()
        while as_json:
            print_json_line(await fetch_holds(client))
            await clock.sleep(POLL_SECONDS)
        with Live(console=console(), auto_refresh=False) as live:
            while True:
                live.update(_render_holds(await fetch_holds(client)), refresh=True)
                await clock.sleep(POLL_SECONDS)

    if watch:
        server.ask(watch_holds)
        return None
    return Output(server.ask(fetch_holds), _show_holds)


def _show_holds(answer: HoldList) -> Group | None:
    if answer.holds or answer.elsewhere:
        return _render_holds(answer)
    note("no call is held")
    return None


@app.command(epilog="Example: circadia holds drop hold_0cwd…")
def drop(server: RemoteServer, hold: Annotated[str, typer.Argument(metavar="HOLD", help="Hold ID.")]) -> Output:
    """End a held call with an error that SDKs do not retry. Its agent stays asleep."""
    call = server.ask(lambda client: client.drop_hold(hold))
    text = f"dropped {call.what} of {call.reference}, held for {format_duration(call.waited_seconds)}"
    return Output(call, text)


def _render_holds(answer: HoldList) -> Group:
    rows = [
        (
            hold.id, hold.reference, hold.door, hold.what, format_duration(hold.waited_seconds),
            hold.phase if hold.approval is None else f"{hold.phase}, needs approval", hold.bytes,
        )
        for hold in answer.holds
    ]  # fmt: skip
    listed = table(("hold", "agent", "door", "call", "held for", "phase", "bytes"), rows, numbers=("bytes",))
    parts: list[RenderableType] = [listed] if rows or not answer.elsewhere else []
    if (left := answer.total - len(rows)) > 0:
        parts.append(Text(f"… and {left} more", "dim"))
    if answer.elsewhere:
        elsewhere = [(each.reference, each.server, each.address, each.holds) for each in answer.elsewhere]
        parts.append(table(("agent", "held by", "address", "calls"), elsewhere, numbers=("calls",)))
    if (left := answer.total_elsewhere - sum(each.holds for each in answer.elsewhere)) > 0:
        parts.append(Text(f"… and {left} more calls at other servers", "dim"))
    return Group(*parts)
