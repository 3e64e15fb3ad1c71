"""`circadia alarms`: what agents set for themselves, and named events for those that wait for one."""

import json
from typing import Annotated, Any, cast

import typer

from circadia.cli.arguments import Agent, Limit, Session, full_reference
from circadia.cli.connection import RemoteServer
from circadia.cli.terminal.groups import NounGroup
from circadia.cli.terminal.output import Output, list_output, local_time, shorten
from circadia.errors import InvalidRequest
from circadia.schemas.alarms import AlarmList, AlarmView

app = typer.Typer(cls=NounGroup)

_LETTERS = 60
_COLUMNS = ("agent", "name", "next", "rule", "if woken", "reason")


@app.callback(epilog="Example: circadia alarms --agent writer")
def alarms(
    server: RemoteServer,
    agent: Annotated[str | None, typer.Option("--agent", metavar="AGENT", help="Only those of this agent.")] = None,
    limit: Limit = 50,
    session: Session = None,
) -> Output:
    """List the alarms and routines that agents set for themselves."""
    if agent is not None:
        target = full_reference(agent, session)
        document = AlarmList(alarms=server.ask(lambda client: client.list_own_alarms(target)))
    else:
        document = server.ask(lambda client: client.list_alarms(limit=min(limit, 1000)))
    return list_output(document, document.alarms, _COLUMNS, _row, nothing="no alarm", more=document.next is not None)


@app.command(epilog="Example: circadia alarms cancel writer 'alarm 2026-11-30T09:00:00Z'")
def cancel(
    server: RemoteServer,
    agent: Agent,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the alarm or routine.")],
    session: Session = None,
) -> Output:
    """Cancel an alarm, or delete a routine that an agent set for itself."""
    target = full_reference(agent, session)
    cancelled = server.ask(lambda client: client.cancel_alarm(target, name))
    return Output(cancelled, f"{cancelled.name!r} of {cancelled.agent} is cancelled")


@app.command(epilog="""Example: circadia alarms emit batch.completed '{"id": "batch_7"}'""")
def emit(
    server: RemoteServer,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the event.")],
    content: Annotated[str, typer.Argument(metavar="JSON", help="What happened, as a JSON object.")] = "{}",
    key: Annotated[
        str | None, typer.Option("--key", metavar="KEY", help="Idempotency key: a repeat reaches no agent twice.")
    ] = None,
) -> Output:
    """Report a named event to the agents that wait for it."""
    stated = _read_object(content)
    outcome = server.ask(lambda client: client.emit_event(name, stated, key=key))
    reached = ", ".join(each.agent for each in outcome.deliveries)
    return Output(outcome, f"{name} has reached {reached}" if reached else f"no agent waits for this {name}")


def _read_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise InvalidRequest(f"{text[:80]!r} is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise InvalidRequest('the data is no JSON object; write one such as \'{"id": "batch_7"}\'')
    return cast("dict[str, Any]", value)


def _row(alarm: AlarmView) -> tuple[object, ...]:
    rule = alarm.cron or (f"every {alarm.every_seconds} s" if alarm.every_seconds else "once")
    next_at = "rang" if alarm.next_at is None else local_time(alarm.next_at)
    ends = "cancelled" if alarm.cancel_if_woken else ""
    return alarm.agent, alarm.name, next_at, rule, ends, shorten(alarm.reason, _LETTERS)
