"""`circadia tokens`: tokens of people."""

from typing import Annotated

import typer

from circadia.cli.remote.connection import RemoteServer
from circadia.cli.terminal.groups import NounGroup
from circadia.cli.terminal.output import AsJson, console, local_time, note, print_json, print_result, table
from circadia.client import Client
from circadia.records.principal import AccessRole

app = typer.Typer(cls=NounGroup)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The person who has the token.")]


@app.callback(epilog="Example: circadia tokens")
def tokens(server: RemoteServer, as_json: AsJson = False) -> None:
    """List the tokens of people: operators and viewers."""
    found = server.ask(lambda client: client.list_tokens())
    if as_json:
        print_json(found)
    elif found:
        rows = [(token.name, token.role.value, local_time(token.created_at), token.created_by) for token in found]
        console().print(table(("name", "role", "created", "by"), rows))
    else:
        note("no person has a token of their own; make one with `circadia tokens add NAME --role viewer`")


@app.command(epilog="Example: circadia tokens add ann --role viewer")
def add(
    server: RemoteServer,
    name: Name,
    role: Annotated[
        AccessRole, typer.Option("--role", help="An operator may do everything; a viewer changes nothing.")
    ] = AccessRole.VIEWER,
    as_json: AsJson = False,
) -> None:
    """Create a token for a person and print it once."""
    created = server.ask(lambda client: client.create_token(name, role.value))
    if as_json:
        print_json(created)
        return
    typer.echo(f"{created.role.value} {created.name}. The token, shown only once:")
    typer.echo(f"  {created.token}")


@app.command(epilog="Example: circadia tokens revoke ann")
def revoke(server: RemoteServer, name: Name, as_json: AsJson = False) -> None:
    """Revoke a person's token at all servers."""

    async def revoke_token(client: Client) -> None:
        await client.revoke_token(name)

    server.ask(revoke_token)
    print_result({"revoked": name}, f"the token of {name} is revoked", as_json=as_json)
