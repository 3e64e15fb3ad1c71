"""`circadia passes`: passes over memory banks, and what is done with one."""

import sys
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.text import Text

from circadia.cli.remote.bank import Bank, BankToListIfAny, User
from circadia.cli.remote.connection import RemoteServer
from circadia.cli.remote.paging import PAGE, Limit, gather_pages
from circadia.cli.sleeptime import changes
from circadia.cli.sleeptime import status as bank_status
from circadia.cli.sleeptime.changes import PassOrBank, fetch_all_changes, print_changes, resolve_pass_key
from circadia.cli.sleeptime.status import format_price, show_all
from circadia.cli.terminal.groups import NounGroup
from circadia.cli.terminal.output import (
    AsJson,
    compact,
    console,
    display_text,
    format_duration,
    local_time,
    note,
    print_json,
    print_list,
    print_result,
    table,
)
from circadia.client import Client
from circadia.clock import SystemClock
from circadia.errors import InvalidRequest
from circadia.records.sleep_pass import PassStatus
from circadia.schemas.passes import PassChangeResult, PassDetail, PassList, PassPage, PassView

app = typer.Typer(cls=NounGroup)
app.add_typer(bank_status.app)
app.add_typer(changes.app)

LOOK_SECONDS: Final = 0.5
COLOURS: Final = {
    "succeeded": "green", "no_change": "green", "running": "cyan", "partial": "yellow", "failed": "red",
}  # fmt: skip
_OPEN: Final = ("pending", "running")
_NUMBERS: Final = ("calls", "tokens", "cost")
_COLUMNS: Final = ("pass", "asked", "for", "by", "status", "changes", "calls", "tokens", "cost", "ran", "detail")

PassKey = Annotated[str, typer.Argument(metavar="PASS", help="Pass ID.")]
Numbers = Annotated[
    list[int] | None,
    typer.Option("--change", metavar="N", help="Only the change with this number in the diff; may be repeated."),
]


@app.callback(epilog="Example: circadia passes team --status failed")
def passes(
    server: RemoteServer,
    bank: BankToListIfAny = None,
    statuses: Annotated[
        list[PassStatus] | None,
        typer.Option("--status", help="Only passes with this status; may be repeated without a bank."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="WHEN", help="Only passes over all banks that were requested since then."),
    ] = None,
    limit: Limit = 50,
    user: User = None,
    as_json: AsJson = False,
) -> None:
    """List the passes over a bank, newest first.

    Without a bank, list those over all banks that --status or --since select; without these, what waits and runs.
    """
    names = [status.value for status in statuses or ()]
    if bank is not None and (len(names) > 1 or since is not None):
        raise InvalidRequest("with a bank, --status can be given once, and --since cannot; leave the bank out")
    if bank is None and user is not None:
        raise InvalidRequest("--user needs a bank; name one")
    if bank is None and not names and since is None:
        _list_banks(server, limit, as_json=as_json)
        return

    async def fetch_page(client: Client, before: str | None, count: int) -> PassList | PassPage:
        if bank is None:
            return await client.list_passes_of_all(statuses=names, since=since, before=before, limit=count)
        status = names[0] if names else None
        return await client.list_passes(bank, status=status, before=before, limit=count, user=user)

    async def fetch_passes(client: Client) -> PassList | PassPage:
        return await gather_pages(lambda place, count: fetch_page(client, place, count), key="passes", limit=limit)

    page = server.ask(fetch_passes)
    more = page.before is not None
    columns, row = (_COLUMNS, _row) if bank is not None else ((_COLUMNS[0], "bank", *_COLUMNS[1:]), _row_with_bank)
    print_list(page, page.passes, columns, row, as_json=as_json, nothing="no pass", numbers=_NUMBERS, more=more)


def _list_banks(server: RemoteServer, limit: int, *, as_json: bool) -> None:
    answer = server.ask(lambda client: client.show_sleeptime_of_all(limit=min(limit, PAGE)))
    if as_json:
        print_json(answer)
    else:
        show_all(answer)


@app.command(epilog="Example: circadia passes explain team")
def explain(server: RemoteServer, run: PassOrBank, user: User = None, as_json: AsJson = False) -> None:
    """Show a pass's trigger, input and changes, and the cost of each model call."""

    async def fetch_pass(client: Client) -> PassDetail:
        return await client.show_pass(await resolve_pass_key(client, run, user))

    details = server.ask(fetch_pass)
    if as_json:
        print_json(details)
    else:
        _show(details)


@app.command(epilog="Example: circadia passes run team --dry-run --wait")
def run(
    server: RemoteServer,
    bank: Bank,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only propose changes: write nothing and keep the input.")
    ] = False,
    instructions: Annotated[
        str, typer.Option("--instructions", metavar="TEXT", help="Extra instructions for this pass.")
    ] = "",
    operations: Annotated[
        list[str] | None, typer.Option("--operation", metavar="NAME", help="Run only this operation; may be repeated.")
    ] = None,
    review: Annotated[bool, typer.Option("--review", help="Hold back the changes until you accept them.")] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Process all notes and beliefs again, not only new input.")
    ] = False,
    needed: Annotated[
        bool, typer.Option("--needed", help="Do not yield to turns or wakes: the next answer needs it.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for its end, with progress and changes.")] = False,
    user: User = None,
    as_json: AsJson = False,
) -> None:
    """Request a pass over all that waits in a bank. With --wait, the exit status is 1 if it fails."""

    async def request_pass(client: Client) -> PassDetail:
        requested = await client.run_pass(
            bank, dry_run=dry_run, instructions=instructions, operations=operations or (), review=review, full=full,
            needed=needed, user=user,
        )  # fmt: skip
        return await (_wait_for_pass(client, requested.id) if wait else client.show_pass(requested.id))

    details = server.ask(request_pass)
    if as_json:
        print_json(details)
    elif not wait:
        note(f"requested pass {details.id} over {details.bank}; see `circadia passes explain {details.id}`")
    else:
        print_changes(server.ask(lambda client: fetch_all_changes(client, details.id)))
        _show(details)
    if wait and details.status == "failed":
        raise typer.Exit(1)


@app.command(epilog="Example: circadia passes undo pas_0cwd4f7k2m")
def undo(server: RemoteServer, run: PassKey, numbers: Numbers = None, as_json: AsJson = False) -> None:
    """Undo everything that a pass did, or single changes. Later changes by others stay."""
    _print_result(
        server.ask(lambda client: client.undo_pass(run, numbers=numbers or ())),
        as_json,
        "it changed no note, block or weight that still exists",
    )


@app.command(epilog="Example: circadia passes accept pas_0cwd4f7k2m")
def accept(server: RemoteServer, run: PassKey, numbers: Numbers = None, as_json: AsJson = False) -> None:
    """Publish the changes of a pass that wait for review, all or single ones."""
    result = server.ask(lambda client: client.accept_pass(run, numbers=numbers or ()))
    _print_result(result, as_json, "no change waits for review")


@app.command(epilog="Example: circadia passes refuse pas_0cwd4f7k2m --change 3")
def refuse(server: RemoteServer, run: PassKey, numbers: Numbers = None, as_json: AsJson = False) -> None:
    """Refuse the changes of a pass that wait for review, all or single ones. They are never published."""
    result = server.ask(lambda client: client.refuse_pass(run, numbers=numbers or ()))
    _print_result(result, as_json, "no change waits for review")


@app.command(epilog="Example: circadia passes cancel pas_0cwd4f7k2m")
def cancel(server: RemoteServer, run: PassKey, as_json: AsJson = False) -> None:
    """Cancel a pass. Its published changes stay."""
    ended = server.ask(lambda client: client.cancel_pass(run))
    print_result(ended, f"pass {ended.id} over {ended.bank}: {ended.status}", as_json=as_json)


def _print_result(result: PassChangeResult, as_json: bool, nothing: str) -> None:
    if as_json:
        print_json(result)
        return
    if not result.changes:
        note(f"pass {result.run.id}: {nothing}")
        return
    print_changes(result.changes)
    states = Counter(change.state for change in result.changes)
    note(f"pass {result.run.id}: " + ", ".join(f"{number} {state}" for state, number in states.items()))


async def _wait_for_pass(client: Client, key: str) -> PassDetail:
    """Return the pass when it has ended; show its progress on a terminal."""
    clock, last = SystemClock(), ""
    with Console(stderr=True, quiet=not sys.stderr.isatty()).status("waiting for a worker") as line:
        while True:
            details = await client.show_pass(key)
            if details.status not in _OPEN:
                return details
            progress = _progress(details)
            if progress != last:
                line.update(Text(display_text(progress)))
                last = progress
            await clock.sleep(LOOK_SECONDS)


def _progress(details: PassView) -> str:
    spent = details.spent
    words = [details.status, details.detail if details.status == "pending" else ""]
    words += [f"episodes to {details.after} of {details.upto}", f"{spent.calls} calls", f"{spent.tokens} tokens"]
    return " · ".join(word for word in [*words, format_price(spent.tokens, spent.usd), _counts(details.counts)] if word)


def _generation(view: PassDetail) -> str:
    before, after = view.generation_before, view.generation_after
    return f"{before}, unchanged" if after in (None, before) else f"{before} → {after}"


def _show(view: PassDetail) -> None:
    spent = view.spent
    flags = [name.replace("_", " ") for name in ("dry_run", "review", "full") if getattr(view, name)]
    rows = [
        ("trigger", view.trigger + (f", asked by {view.by}" if view.by else "")),
        ("instructions", view.instructions or None),
        ("operations", view.operations or "those of the bank's policy"),
        ("kind", flags or "writes"),
        ("asked", local_time(view.created_at)),
        ("ended", None if view.ended_at is None else local_time(view.ended_at)),
        ("input", f"episodes up to {view.upto}; processed up to {view.after}"),
        ("status", Text(view.status, COLOURS.get(view.status, ""))),
        ("detail", view.detail or None),
        ("changes", _counts(view.counts) or "none"),
        ("generation", _generation(view)),
        ("cost", f"{spent.calls} calls, {spent.tokens:,} tokens, {format_price(spent.tokens, spent.usd)}"),
    ]
    console().print(table((view.id, display_text(view.bank)), rows))
    if view.ledger:
        columns = ("operation", "model", "calls", "failed", "tokens", "cost", "seconds")
        lines = [
            (line.operation, line.model, line.calls, line.failed, line.tokens, format_price(line.tokens, line.usd),
             f"{line.seconds:.1f}")
            for line in view.ledger
        ]  # fmt: skip
        console().print()
        console().print(table(columns, lines, numbers=columns[2:]))
    for error in view.errors:
        console().print(Text(display_text(error), "red"))


def _row(each: PassView) -> tuple[object, ...]:
    spent = each.spent
    return (
        each.id,
        local_time(each.created_at),
        each.trigger,
        each.by,
        Text(each.status + (" (dry run)" if each.dry_run else ""), COLOURS.get(each.status, "")),
        _counts(each.counts),
        spent.calls,
        f"{spent.tokens:,}",
        format_price(spent.tokens, spent.usd),
        format_duration(_run_seconds(each)),
        each.detail,
    )


def _row_with_bank(each: PassView) -> tuple[object, ...]:
    key, *others = _row(each)
    return (key, each.bank, *others)


def _run_seconds(each: PassView) -> float:
    if each.status == "running" and each.started_at is not None:
        return each.run_seconds + (SystemClock().now() - each.started_at).total_seconds()
    return each.run_seconds


def _counts(counts: Mapping[str, int]) -> str:
    return compact(dict(counts))
