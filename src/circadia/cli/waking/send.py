"""`circadia send`: a message for an agent's inbox, and a wake for it where it cannot wait."""

import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from circadia.cli.remote.connection import RemoteServer
from circadia.cli.remote.reference import Session, full_reference
from circadia.cli.terminal.output import AsJson, display_text, note, print_json
from circadia.client import Client
from circadia.errors import InvalidRequest
from circadia.records.message import MessageType, Priority
from circadia.records.wake import WakeReason

app = typer.Typer()

STDIN = "-"


@app.command(epilog="Example: circadia send writer 'the notes for 7.1 can start' --wake user_request")
def send(
    server: RemoteServer,
    to: Annotated[str, typer.Argument(metavar="TO", help="Whom, as `name` or `session:name`.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The message; `-` reads it from standard input.")],
    priority: Annotated[
        Priority, typer.Option("--priority", help="How soon it wants to be read; high and urgent ask for a wake.")
    ] = Priority.NORMAL,
    kind: Annotated[MessageType, typer.Option("--type", help="What it is for.")] = MessageType.INFO,
    wake: Annotated[
        WakeReason | None, typer.Option("--wake", metavar="REASON", help="Ask to wake its reader for it now, and why.")
    ] = None,
    override: Annotated[
        str | None, typer.Option("--override", metavar="WHY", help="With --wake: let it pass the guardrails, and why.")
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", metavar="KEY", help="A repeat with the same key does nothing twice.")
    ] = None,
    session: Session = None,
    as_json: AsJson = False,
) -> None:
    """Put a message into an agent's inbox; with --wake, ask to wake the agent for it."""
    content = sys.stdin.read() if text == STDIN else text
    reader, reason = full_reference(to, session), None if wake is None else wake.value
    if override is not None and reason is None:
        raise InvalidRequest("--override goes with --wake; say why its reader is to be woken")
    if override is not None and (priority is not Priority.NORMAL or kind is not MessageType.INFO):
        raise InvalidRequest("--override takes neither --priority nor --type; leave them out")

    async def put_message(client: Client) -> Mapping[str, Any]:
        if override is not None and reason is not None:
            return await client.wake_agent(reader, reason, content, override=override, key=key)
        return await client.send_direct(reader, content, priority=priority.value, type=kind.value, wake=reason, key=key)

    answer = server.ask(put_message)
    if as_json:
        print_json(answer)
        return
    typer.echo(display_text(answer["told"]))
    ids = {name: answer[name] for name in ("message", "wake", "pulse") if answer[name]}
    note("  ".join(f"{name} {value}" for name, value in ids.items()))
