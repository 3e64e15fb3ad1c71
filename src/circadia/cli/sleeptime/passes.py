"""`circadia passes`: passes over memory banks, and what is done with one."""

import difflib
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.text import Text

from circadia.cli.arguments import Bank, BankToListIfAny, Limit, User
from circadia.cli.connection import ALL_ROWS, PAGE_ROWS, RemoteServer, gather_pages
from circadia.cli.sleeptime import status as bank_status
from circadia.cli.sleeptime.status import format_price, format_thinking, show_all
from circadia.cli.terminal.groups import NounGroup
from circadia.cli.terminal.output import (
    Output,
    compact,
    console,
    display_text,
    format_duration,
    list_output,
    local_time,
    note,
    table,
)
from circadia.client import Client
from circadia.clock import SystemClock
from circadia.errors import InvalidRequest, NotFound
from circadia.records.change import ChangeState
from circadia.records.sleep_pass import PassStatus
from circadia.schemas.passes import ChangeView, PassChangeResult, PassDetail, PassList, PassPage, PassView

app = typer.Typer(cls=NounGroup)
app.add_typer(bank_status.app)

POLL_SECONDS: Final = 0.5
COLOURS: Final = {
    "succeeded": "green", "no_change": "green", "running": "cyan", "partial": "yellow", "failed": "red",
}  # fmt: skip
_OPEN: Final = ("pending", "running")
_NUMBERS: Final = ("calls", "tokens", "cost")
_LINES: Final = {"+": "green", "-": "red", "@": "cyan"}
_SIGNS: Final = {
    "add_note": ("+", "green", "note"), "retire_note": ("-", "red", "note"),
    "demote_episode": ("~", "yellow", "episode"), "write_block": ("~", "cyan", "block"),
    "flag": ("!", "magenta", "flag"),
}  # fmt: skip
_COLUMNS: Final = ("pass", "asked", "for", "by", "status", "changes", "calls", "tokens", "cost", "ran", "detail")

PassOrBank = Annotated[
    str, typer.Argument(metavar="PASS", help="Pass ID, or a bank or template name for its newest pass.")
]
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
) -> Output:
    """List the passes over a bank, newest first.

    Without a bank, list those over all banks that --status or --since select; without these, what waits and runs.
    """
    names = [status.value for status in statuses or ()]
    if bank is not None and (len(names) > 1 or since is not None):
        raise InvalidRequest("with a bank, --status can be given once, and --since cannot; leave the bank out")
    if bank is None and user is not None:
        raise InvalidRequest("--user needs a bank; name one")
    if bank is None and not names and since is None:
        return Output(server.ask(lambda client: client.show_sleeptime_of_all(limit=min(limit, PAGE_ROWS))), show_all)

    async def fetch_page(client: Client, before: str | None, count: int) -> PassList | PassPage:
        if bank is None:
            return await client.list_passes_of_all(statuses=names, since=since, before=before, limit=count)
        status = names[0] if names else None
        return await client.list_passes(bank, status=status, before=before, limit=count, user=user)

    page = server.list_pages(fetch_page, "passes", limit=limit)
    more = page.before is not None
    columns, row = (_COLUMNS, _row) if bank is not None else ((_COLUMNS[0], "bank", *_COLUMNS[1:]), _row_with_bank)
    return list_output(page, page.passes, columns, row, nothing="no pass", numbers=_NUMBERS, more=more)


@app.command(epilog="Example: circadia passes explain team")
def explain(server: RemoteServer, run: PassOrBank, user: User = None) -> Output:
    """Show a pass's trigger, input and changes, and the cost of each model call."""

    async def fetch_pass(client: Client) -> PassDetail:
        return await client.show_pass(await _resolve_pass_key(client, run, user))

    return Output(server.ask(fetch_pass), _show)


@app.command(epilog="Example: circadia passes diff team")
def diff(
    server: RemoteServer,
    run: PassOrBank,
    state: Annotated[ChangeState | None, typer.Option("--state", help="Only changes in this state.")] = None,
    user: User = None,
) -> Output:
    """Show what a pass changed or proposes: notes and blocks before and after, with the reason."""

    async def fetch_changes(client: Client) -> list[ChangeView]:
        return await _fetch_changes(client, await _resolve_pass_key(client, run, user), state and state.value)

    changes = server.ask(fetch_changes)
    return Output({"changes": changes}, lambda _: _print_changes(changes) if changes else note("no change"))


async def _resolve_pass_key(client: Client, run: str, user: str | None) -> str:
    """Return the given id, or the id of the newest pass over the given bank. Raises NotFound if it has none."""
    if run.startswith("pas_"):
        return run
    newest = (await client.list_passes(run, limit=1, user=user)).passes
    if not newest:
        raise NotFound(f"there was no pass over {run!r} yet")
    return newest[0].id


async def _fetch_changes(client: Client, run: str, state: str | None = None) -> list[ChangeView]:
    page = await gather_pages(
        lambda place, count: client.list_changes(run, state=state, after=int(place or 0), limit=count),
        key="changes",
        limit=ALL_ROWS,
        cursor="after",
    )
    return page.changes


def _print_changes(changes: Sequence[ChangeView]) -> None:
    out = console()
    for change in changes:
        for line in _change_lines(change):
            out.print(line)


def _change_lines(each: ChangeView) -> Iterator[Text]:
    sign, colour, noun = _SIGNS.get(each.kind, ("?", "", each.kind))
    dim = "dim " if each.state in ("refused", "undone") else ""
    head = f"{sign} {noun} {each.target}"
    labels = {"published": f"{each.number}", "staged": f"staged {each.number}"}  # for --change
    state = f" [{labels.get(each.state, each.state)}]"
    yield Text.assemble((display_text(head), f"{dim}bold {colour}"), (f"{state} {each.operation}", "dim"))
    before, after = each.before or {}, each.after or {}
    match each.kind:
        case "write_block":
            for line in _unified(str(before.get("value", "")), str(after.get("value", ""))):
                yield Text(f"    {display_text(line)}", f"{dim}{_LINES.get(line[:1], '')}")
        case "add_note" | "flag":
            yield from _indented(after.get("text"), "+", f"{dim}{colour}")
        case "retire_note":
            yield from _indented(before.get("text"), "-", f"{dim}{colour}")
        case "demote_episode":
            yield Text(
                f"    counts × {after.get('weight')}, shown by {display_text(after.get('evidence'))}", f"{dim}{colour}"
            )
        case _:
            pass
    if after.get("evidence") and each.kind == "add_note":
        yield Text(f"    from {display_text(after['evidence'])}", "dim")
    if each.why:
        yield Text(f"    {'refused: ' if each.state == 'refused' else ''}{display_text(each.why)}", "dim italic")


def _indented(text: Any, sign: str, style: str) -> Iterator[Text]:
    for line in display_text(text or "").split("\n"):
        yield Text(f"    {sign}{line}", style)


def _unified(before: str, after: str) -> Iterator[str]:
    old = before.split("\n") if before else []
    new = after.split("\n") if after else []
    lines = difflib.unified_diff(old, new, lineterm="")
    return (line for line in lines if line[:4] not in ("--- ", "+++ "))


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
    budget: Annotated[
        int | None,
        typer.Option(
            "--budget", metavar="TOKENS", min=1, help="Own budget, in place of all other limits; it runs to the end."
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for its end, with progress and changes.")] = False,
    user: User = None,
) -> Output:
    """Request a pass over all that waits in a bank. With --wait, the exit status is 1 if it fails."""

    async def request_pass(client: Client) -> PassDetail:
        requested = await client.run_pass(
            bank, dry_run=dry_run, instructions=instructions, operations=operations or (), review=review, full=full,
            needed=needed, budget_tokens=budget, user=user,
        )  # fmt: skip
        return await (_wait_for_pass(client, requested.id) if wait else client.show_pass(requested.id))

    def show(details: PassDetail) -> None:
        if not wait:
            note(f"requested pass {details.id} over {details.bank}; see `circadia passes explain {details.id}`")
            return
        _print_changes(server.ask(lambda client: _fetch_changes(client, details.id)))
        _show(details)

    details = server.ask(request_pass)
    return Output(details, show, status=int(wait and details.status == "failed"))


@app.command(epilog="Example: circadia passes undo pas_0cwd4f7k2m")
def undo(server: RemoteServer, run: PassKey, numbers: Numbers = None) -> Output:
    """Undo everything that a pass did, or single changes. Later changes by others stay."""
    result = server.ask(lambda client: client.undo_pass(run, numbers=numbers or ()))
    return _changes_output(result, "it changed no note, block or weight that still exists")


@app.command(epilog="Example: circadia passes accept pas_0cwd4f7k2m")
def accept(server: RemoteServer, run: PassKey, numbers: Numbers = None) -> Output:
    """Publish the changes of a pass that wait for review, all or single ones."""
    result = server.ask(lambda client: client.accept_pass(run, numbers=numbers or ()))
    return _changes_output(result, "no change waits for review")


@app.command(epilog="Example: circadia passes refuse pas_0cwd4f7k2m --change 3")
def refuse(server: RemoteServer, run: PassKey, numbers: Numbers = None) -> Output:
    """Refuse the changes of a pass that wait for review, all or single ones. They are never published."""
    result = server.ask(lambda client: client.refuse_pass(run, numbers=numbers or ()))
    return _changes_output(result, "no change waits for review")


@app.command(epilog="Example: circadia passes cancel pas_0cwd4f7k2m")
def cancel(server: RemoteServer, run: PassKey) -> Output:
    """Cancel a pass. Its published changes stay."""
    ended = server.ask(lambda client: client.cancel_pass(run))
    return Output(ended, f"pass {ended.id} over {ended.bank}: {ended.status}")


def _changes_output(result: PassChangeResult, nothing: str) -> Output:
    def show(_: object) -> None:
        _print_changes(result.changes)
        states = Counter(change.state for change in result.changes)
        counts = ", ".join(f"{number} {state}" for state, number in states.items())
        note(f"pass {result.run.id}: {counts or nothing}")

    return Output(result, show)


async def _wait_for_pass(client: Client, key: str) -> PassDetail:
    """Return the pass when it has ended; show its progress on a terminal."""
    clock = SystemClock()
    with Console(stderr=True, quiet=not sys.stderr.isatty()).status("waiting for a worker") as line:
        while True:
            details = await client.show_pass(key)
            if details.status not in _OPEN:
                return details
            line.update(Text(display_text(_progress(details))))
            await clock.sleep(POLL_SECONDS)


def _progress(details: PassView) -> str:
    spent = details.spent
    words = [details.status, details.detail if details.status == "pending" else ""]
    words += [f"episodes to {details.after} of {details.upto}", f"{spent.calls} calls", f"{spent.tokens} tokens"]
    return " · ".join(word for word in [*words, format_price(spent.tokens, spent.usd), compact(details.counts)] if word)


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
        ("own budget", None if view.budget_tokens is None else f"{view.budget_tokens:,} tokens"),
        ("asked", local_time(view.created_at)),
        ("ended", None if view.ended_at is None else local_time(view.ended_at)),
        ("input", f"episodes up to {view.upto}; processed up to {view.after}"),
        ("status", Text(view.status, COLOURS.get(view.status, ""))),
        ("detail", view.detail or None),
        ("changes", compact(view.counts) or "none"),
        ("generation", _generation(view)),
        ("cost", f"{spent.calls} calls, {spent.tokens:,} tokens, {format_price(spent.tokens, spent.usd)}"),
    ]
    console().print(table((view.id, display_text(view.bank)), rows))
    if view.ledger:
        columns = ("operation", "model", "calls", "failed", "tokens", "thinking", "cost", "seconds")
        lines = [
            (line.operation, line.model, line.calls, line.failed, line.tokens, format_thinking(line),
             format_price(line.tokens, line.usd), f"{line.seconds:.1f}")
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
        compact(each.counts),
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
