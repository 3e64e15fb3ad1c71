"""`circadia ui`: the dashboard, signed in."""

import webbrowser
from typing import Annotated

import typer

from circadia.cli.remote.connection import RemoteServer
from circadia.cli.terminal.output import AsJson, note, print_json

app = typer.Typer()


@app.command(epilog="Example: circadia ui")
def ui(
    server: RemoteServer,
    opens: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the link, or only print it.", show_default=False)
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Open the dashboard in a browser, signed in.

    The link works once, within a minute.
    """
    link = server.ask(lambda client: client.create_sign_in_link())
    url = server.url.rstrip("/") + link.path
    if as_json:
        print_json({"url": url})
        return
    typer.echo(url)
    if opens and not webbrowser.open(url):
        note("no browser was found; open the link above")
