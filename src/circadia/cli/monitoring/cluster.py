"""`circadia cluster`: the servers on one database."""

import typer

from circadia.cli.remote.connection import RemoteServer
from circadia.cli.terminal.output import AsJson, console, local_time, note, print_json, table
from circadia.client import Client
from circadia.schemas.fleet import Cluster

app = typer.Typer()


@app.command(epilog="Example: circadia cluster")
def cluster(server: RemoteServer, as_json: AsJson = False) -> None:
    """List the live servers that share a PostgreSQL database, oldest first."""

    async def fetch_cluster(client: Client) -> Cluster:
        return await client.show_cluster()

    answer = server.ask(fetch_cluster)
    if as_json:
        print_json(answer)
    elif answer.members:
        rows = [
            (
                member.host, member.address, f"{member.role.value}{', leads' if member.leads else ''}", member.version,
                local_time(member.started_at), member.config_check, member.connections, member.holds, member.running,
            )
            for member in answer.members
        ]  # fmt: skip
        columns = ("host", "address", "role", "version", "started", "config", "connections", "held calls", "running")
        console().print(table(columns, rows, numbers=("connections", "held calls", "running")))
        for conflict in answer.conflicts:
            note(f"warning: {conflict}")
    else:
        note("this server uses SQLite and is alone; a cluster needs server.database_url")
