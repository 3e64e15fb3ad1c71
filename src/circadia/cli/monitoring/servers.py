"""`circadia cluster` and `circadia ui`: the servers on one database, and the dashboard, signed in."""

import webbrowser
from typing import Annotated

import typer

from circadia.cli.connection import RemoteServer
from circadia.cli.terminal.output import Output, console, local_time, note, table
from circadia.schemas.fleet import Cluster

app = typer.Typer()


@app.command(epilog="Example: circadia cluster")
def cluster(server: RemoteServer) -> Output:
    """List the live servers that share a PostgreSQL database, oldest first."""
    return Output(server.ask(lambda client: client.show_cluster()), _show_members)


def _show_members(answer: Cluster) -> None:
    if not answer.members:
        note("this server uses SQLite and is alone; a cluster needs server.database_url")
        return
    rows = [
        (
            member.host, member.address, f"{member.role.value}{', leads' if member.leads else ''}", member.version,
            local_time(member.started_at), member.config_check, member.connections, member.holds, member.running,
        )
        for member in answer.members
    ]  # fmt: skip
    columns = ("host", "address", "role", "version", "started", "config", "connections", "held calls", "running")
    console().print(table(columns, rows, numbers=columns[-3:]))
    for conflict in answer.conflicts:
        note(f"warning: {conflict}")


@app.command(epilog="Example: circadia ui")
def ui(
    server: RemoteServer,
    opens: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the link, or only print it.", show_default=False)
    ] = True,
) -> Output:
    """Open the dashboard in a browser, signed in.

    The link works once, within a minute.
    """
    link = server.ask(lambda client: client.create_sign_in_link())
    url = server.url.rstrip("/") + link.path

    def open_link(_: object) -> None:
        typer.echo(url)
        if opens and not webbrowser.open(url):
            note("no browser was found; open the link above")

    return Output({"url": url}, open_link)
