"""`circadia calls`: model calls one by one."""

from enum import StrEnum
from typing import Annotated

import typer

from circadia.cli.arguments import Limit, OnlyAgent, OnlySession
from circadia.cli.connection import RemoteServer
from circadia.cli.terminal.groups import NounGroup
from circadia.cli.terminal.output import Output, console, dollars, format_duration, list_output, local_time, note, table
from circadia.records.conversation import display_alias
from circadia.schemas.calls import CallDetail, CallState, CallView

app = typer.Typer(cls=NounGroup)


class State(StrEnum):
    HELD = "held"
    RESERVED = "reserved"
    DONE = "done"
    FAILED = "failed"


class Tier(StrEnum):
    HOT = "hot"
    READY = "ready"
    SLEEP = "sleep"


class Order(StrEnum):
    NEWEST = "newest"
    COST = "cost"


@app.callback(epilog="Example: circadia calls --agent writer --status failed")
def calls(
    server: RemoteServer,
    session: OnlySession = None,
    agent: OnlyAgent = None,
    model: Annotated[str | None, typer.Option("--model", metavar="NAME", help="Only of this model.")] = None,
    tier: Annotated[Tier | None, typer.Option("--tier", help="Only of this tier.")] = None,
    status: Annotated[State | None, typer.Option("--status", help="Only in this state.")] = None,
    upstream: Annotated[str | None, typer.Option("--upstream", metavar="NAME", help="Only to this provider.")] = None,
    end_user: Annotated[str | None, typer.Option("--user", metavar="NAME", help="Only for this end user.")] = None,
    conversation: Annotated[
        str | None, typer.Option("--conversation", metavar="ID", help="Only of this conversation.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Calls since this date or time; UTC if no zone.")
    ] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="Calls before this time.")] = None,
    order: Annotated[
        Order, typer.Option("--order", help="`cost` lists the dearest of 5,000 calls first.")
    ] = Order.NEWEST,
    limit: Limit = 50,
) -> Output:
    """List model calls, newest first: tokens, cost, time held, why they stopped."""
    state: CallState | None = None if status is None else status.value
    page = server.list_pages(
        lambda client, after, count: client.list_calls(
            session=session, agent=agent, model=model, tier=tier and tier.value, status=state, upstream=upstream,
            end_user=end_user, conversation=conversation, since=since, until=until, order=order.value,
            after=after, limit=count,
        ),
        "calls",
        limit=limit,
        cursor="next",
    )  # fmt: skip
    columns = ("call", "at", "agent", "model", "state", "in", "cached", "out", "cost", "held", "took", "stop")
    return list_output(page, page.calls, columns, _row, nothing="no call", more=page.next is not None)


@app.command(epilog="Example: circadia calls show call_0cwd4f7k2m")
def show(
    server: RemoteServer, call: Annotated[str, typer.Argument(metavar="CALL", help="Call ID, or hold ID.")]
) -> Output:
    """Show a model call: its figures, the memory that it has shown, and its text if that is kept."""
    details = server.ask(lambda client: client.show_call(call))
    return Output(details, lambda _: _show_call(details))


def _row(call: CallView) -> tuple[object, ...]:
    return (
        call.id, local_time(call.at), call.reference, call.model, call.status, *_tokens(call), _cost(call),
        format_duration(call.held_seconds), _duration(call.total_seconds), call.stop_reason or "–",
    )  # fmt: skip


def _tokens(call: CallView) -> tuple[str, str, str]:
    counts = (call.input_tokens, call.cached_tokens, call.output_tokens)
    read, cached, written = ("–" if count is None else f"{count:,}" for count in counts)
    return read, cached, written


def _cost(call: CallView) -> str:
    return "–" if call.cost_usd is None else dollars(call.cost_usd)


def _duration(seconds: float | None) -> str:
    return "–" if seconds is None else format_duration(seconds)


def _show_call(call: CallDetail) -> None:
    read, cached, written = _tokens(call)
    facts = (
        ("at", local_time(call.at)), ("agent", call.reference), ("tier", call.tier),
        ("sent to", f"{call.upstream} {call.endpoint}"), ("model", call.model),
        ("state", f"{call.status} {call.http_status or ''}".rstrip()), ("stop reason", call.stop_reason or "–"),
        ("tokens", f"{read} in, of which {cached} cached; {written} out"), ("cost", _cost(call)),
        ("held", format_duration(call.held_seconds)), ("first byte", _duration(call.first_token_seconds)),
        ("took", _duration(call.total_seconds)), ("retries", str(call.retries)),
        ("ready answer", f"{call.lookup} {call.answer or ''}".rstrip() if call.lookup else "–"),
        ("conversation", call.conversation or "–"),
        ("end user", display_alias(call.end_user) if call.end_user else "–"),
    )  # fmt: skip
    console().print(table((call.id, ""), facts))
    if call.memory:
        rows = [(row.bank or "–", row.kind, row.id or "forgotten", row.version or "–") for row in call.memory]
        console().print(table(("bank", "memory", "id", "version"), rows))
    for name, text in (("request", call.request), ("response", call.response)):
        if text:
            console().print(table((name,), [(text,)]))
    if call.request is None and not call.texts_are_kept:
        note("the server keeps no texts of calls; `calls.keep_texts` in its configuration turns that on")
