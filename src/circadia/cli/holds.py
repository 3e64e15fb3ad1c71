"""`circadia holds`: the calls of sleeping agents that wait at the gate."""

from typing import Annotated

import typer
from rich.live import Live
from rich.table import Table

from circadia.cli.connection import DEFAULT_URL, Token, Url, ask
from circadia.cli.folder import Data
from circadia.cli.output import AsJson, console, lasted, note, print_json, print_json_line, table
from circadia.client import Client
from circadia.client.answers import HoldAnswer
from circadia.clock import SystemClock

app = typer.Typer()

LOOK_SECONDS = 1.0


@app.command(epilog="Example: circadia holds --watch")
def holds(
    watch: Annotated[bool, typer.Option("--watch", help="Show them anew each second, until Ctrl-C.")] = False,
    session: Annotated[str | None, typer.Option("--session", metavar="NAME", help="Of this session only.")] = None,
    agent: Annotated[str | None, typer.Option("--agent", metavar="NAME", help="Of agents of this name only.")] = None,
    url: Url = DEFAULT_URL,
    token: Token = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """List the calls that are held now, the longest first."""

    async def read(client: Client) -> list[HoldAnswer]:
        return await client.list_holds(session=session, agent=agent)

    async def watched(client: Client) -> None:
        clock = SystemClock()
        while as_json:
            print_json_line({"holds": await read(client)})
            await clock.sleep(LOOK_SECONDS)
        with Live(console=console(), auto_refresh=False) as live:
            while True:
                live.update(_table(await read(client)), refresh=True)
                await clock.sleep(LOOK_SECONDS)

    if watch:
        ask(url, token, data, watched)
        return
    found = ask(url, token, data, read)
    if as_json:
        print_json({"holds": found})
    elif found:
        console().print(_table(found))
    else:
        note("no call is held")


def _table(found: list[HoldAnswer]) -> Table:
    rows = [
        (each["reference"], each["door"], each["what"], lasted(each["waited_seconds"]), each["phase"], each["bytes"])
        for each in found
    ]
    return table(("agent", "door", "call", "held for", "phase", "bytes"), rows, numbers=("bytes",))
