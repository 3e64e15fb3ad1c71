"""`circadia tokens`: tokens of people."""

from typing import Annotated

import typer

from circadia.cli.connection import RemoteServer
from circadia.cli.terminal.groups import NounGroup
from circadia.cli.terminal.output import Output, list_output, local_time
from circadia.records.principal import AccessRole

app = typer.Typer(cls=NounGroup)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The person who has the token.")]


@app.callback(epilog="Example: circadia tokens")
def tokens(server: RemoteServer) -> Output:
    """List the tokens of people: operators and viewers."""
    listed = server.ask(lambda client: client.list_tokens())
    return list_output(
        listed,
        listed,
        ("name", "role", "created", "by"),
        lambda token: (token.name, token.role.value, local_time(token.created_at), token.created_by),
        nothing="no person has a token of their own; make one with `circadia tokens add NAME --role viewer`",
    )


@app.command(epilog="Example: circadia tokens add ann --role viewer")
def add(
    server: RemoteServer,
    name: Name,
    role: Annotated[
        AccessRole, typer.Option("--role", help="An operator may do everything; a viewer changes nothing.")
    ] = AccessRole.VIEWER,
) -> Output:
    """Create a token for a person and print it once."""
    created = server.ask(lambda client: client.create_token(name, role.value))
    return Output(created, f"{created.role.value} {created.name}. The token, shown only once:\n  {created.token}")


@app.command(epilog="Example: circadia tokens revoke ann")
def revoke(server: RemoteServer, name: Name) -> Output:
    """Revoke a person's token at all servers."""
    server.ask(lambda client: client.revoke_token(name))
    return Output({"revoked": name}, f"the token of {name} is revoked")
