"""`circadia send`: a message for an agent's inbox, and a wake request if it cannot wait."""

import sys
from typing import Annotated

import typer

from circadia.cli.remote.connection import RemoteServer
from circadia.cli.remote.reference import Session, full_reference
from circadia.cli.terminal.output import AsJson, display_text, note, print_json
from circadia.client import Client
from circadia.errors import InvalidRequest
from circadia.records.message import MessageType, Priority
from circadia.records.wake import WakeReason
from circadia.schemas.wakes import SendOutcome

app = typer.Typer()

STDIN = "-"


@app.command(epilog="Example: circadia send writer 'the notes for 7.1 can start' --wake user_request")
def send(
    server: RemoteServer,
    to: Annotated[str, typer.Argument(metavar="TO", help="Recipient, as `name` or `session:name`.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Message text; `-` reads standard input.")],
    priority: Annotated[
        Priority, typer.Option("--priority", help="Message priority; high and urgent request a wake.")
    ] = Priority.NORMAL,
    kind: Annotated[MessageType, typer.Option("--type", help="Message type.")] = MessageType.INFO,
    wake: Annotated[
        WakeReason | None, typer.Option("--wake", metavar="REASON", help="Request a wake now, for this reason.")
    ] = None,
    override: Annotated[
        str | None, typer.Option("--override", metavar="WHY", help="With --wake: why to override the guardrails.")
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", metavar="KEY", help="Idempotency key: sends a repeat only once.")
    ] = None,
    session: Session = None,
    as_json: AsJson = False,
) -> None:
    """Send a message to an agent's inbox. With --wake, also request to wake the agent."""
    content = sys.stdin.read() if text == STDIN else text
    reader, reason = full_reference(to, session), None if wake is None else wake.value
    if override is not None and reason is None:
        raise InvalidRequest("--override needs --wake with the reason for the wake")
    if override is not None and (priority is not Priority.NORMAL or kind is not MessageType.INFO):
        raise InvalidRequest("--override excludes --priority and --type; leave them out")

    async def put_message(client: Client) -> SendOutcome:
        if override is not None and reason is not None:
            return await client.wake_agent(reader, reason, content, override=override, key=key)
        return await client.send_direct(reader, content, priority=priority.value, type=kind.value, wake=reason, key=key)

    answer = server.ask(put_message)
    if as_json:
        print_json(answer)
        return
    typer.echo(display_text(answer.summary))
    ids = {name: getattr(answer, name) for name in ("message", "wake", "pulse") if getattr(answer, name)}
    note("  ".join(f"{name} {value}" for name, value in ids.items()))
