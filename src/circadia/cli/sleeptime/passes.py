"""`circadia sleeptime passes`, `why`, `run`, `undo`, `accept`, `refuse` and `cancel`."""

import sys
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.text import Text

from circadia.cli.remote.connection import RemoteServer
from circadia.cli.remote.paging import gather_pages
from circadia.cli.sleeptime.changes import fetch_all_changes, print_changes, resolve_pass_key
from circadia.cli.sleeptime.status import Bank, User, format_price
from circadia.cli.terminal.output import (
    AsJson,
    compact,
    console,
    display_text,
    format_duration,
    local_time,
    note,
    parse_instant,
    print_json,
    table,
)
from circadia.client import Client
from circadia.client.sleep_answers import PassAnswer, PassChangedAnswer, PassDetailAnswer
from circadia.clock import SystemClock
from circadia.records.sleep_pass import PassStatus

app = typer.Typer()

LOOK_SECONDS: Final = 0.5
"""How often `run --wait` looks."""
COLOURS: Final = {
    "succeeded": "green", "no_change": "green", "running": "cyan", "partial": "yellow", "failed": "red",
}  # fmt: skip
_OPEN: Final = ("pending", "running")
_COLUMNS: Final = ("pass", "asked", "for", "by", "status", "changes", "calls", "tokens", "cost", "ran", "detail")

PassKey = Annotated[str, typer.Argument(metavar="PASS", help="Key of the pass.")]
"""The pass that a command is about."""
Numbers = Annotated[
    list[int] | None,
    typer.Option("--change", metavar="N", help="This change only, by its number in the diff; may be repeated."),
]
"""The changes that a command is about."""


@app.command(epilog="Example: circadia sleeptime passes --bank team")
def passes(
    server: RemoteServer,
    bank: Bank,
    status: Annotated[PassStatus | None, typer.Option("--status", help="That stand so only.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100_000, metavar="N", help="So many at most.")] = 50,
    user: User = None,
    as_json: AsJson = False,
) -> None:
    """List the passes over a bank, the newest first, with what each changed and cost."""
    stands = None if status is None else status.value

    async def fetch_passes(client: Client) -> dict[str, Any]:
        return await gather_pages(
            lambda place, count: client.list_passes(bank, status=stands, before=place, limit=count, user=user),
            key="passes",
            limit=limit,
        )

    found = server.ask(fetch_passes)
    if as_json:
        print_json(found)
    elif found["passes"]:
        rows = [_row(each) for each in found["passes"]]
        console().print(table(_COLUMNS, rows, numbers=("calls", "tokens", "cost")))
        if found["before"] is not None:
            note(f"more than {limit}; --limit shows them")
    else:
        note("no pass")


@app.command(epilog="Example: circadia sleeptime why --bank team")
def why(
    server: RemoteServer,
    run: Annotated[
        str | None, typer.Argument(metavar="[PASS]", help="Key of the pass; else the bank's newest.")
    ] = None,
    bank: Annotated[
        str | None, typer.Option("--bank", metavar="BANK", help="Name of the bank, or of a template.")
    ] = None,
    user: User = None,
    as_json: AsJson = False,
) -> None:
    """Tell what a pass was begun for, what it was given, what it changed, and what each model call cost."""

    async def fetch_pass(client: Client) -> PassDetailAnswer:
        return await client.show_pass(await resolve_pass_key(client, run, bank, user))

    found = server.ask(fetch_pass)
    if as_json:
        print_json(found)
    else:
        _show(found)


@app.command(epilog="Example: circadia sleeptime run --bank team --dry-run --wait")
def run(
    server: RemoteServer,
    bank: Bank,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only propose: nothing is written, and the input stays.")
    ] = False,
    instructions: Annotated[
        str, typer.Option("--instructions", metavar="TEXT", help="What you want of this pass in particular.")
    ] = "",
    operations: Annotated[
        list[str] | None, typer.Option("--operation", metavar="NAME", help="Only this one; may be repeated.")
    ] = None,
    review: Annotated[bool, typer.Option("--review", help="What it proposes waits until you accept it.")] = False,
    full: Annotated[
        bool, typer.Option("--full", help="It looks at all notes and beliefs again, not only at what is new.")
    ] = False,
    needed: Annotated[
        bool, typer.Option("--needed", help="The next answer depends on it: it yields to no turn and no wake.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Show how it goes until its end, and what it changed.")] = False,
    user: User = None,
    as_json: AsJson = False,
) -> None:
    """Ask for a pass over all that waits in a bank; with --wait the exit status is 1 if it fails."""

    async def request_pass(client: Client) -> PassDetailAnswer:
        asked = await client.run_pass(
            bank, dry_run=dry_run, instructions=instructions, operations=operations or (), review=review, full=full,
            needed=needed, user=user,
        )  # fmt: skip
        return await (_wait_for_pass(client, asked["id"]) if wait else client.show_pass(asked["id"]))

    found = server.ask(request_pass)
    if as_json:
        print_json(found)
    elif not wait:
        note(
            f"pass {found['id']} over {found['bank']} is asked for; `circadia sleeptime why {found['id']}` tells of it"
        )
    else:
        print_changes(server.ask(lambda client: fetch_all_changes(client, found["id"])))
        _show(found)
    if wait and found["status"] == "failed":
        raise typer.Exit(1)


@app.command(epilog="Example: circadia sleeptime undo pas_0cwd4f7k2m")
def undo(server: RemoteServer, run: PassKey, as_json: AsJson = False) -> None:
    """Take back all that a pass did; what others have changed since stays as they left it."""
    _print_result(
        server.ask(lambda client: client.undo_pass(run)),
        as_json,
        "it has changed no note, block or weight that is there",
    )


@app.command(epilog="Example: circadia sleeptime accept pas_0cwd4f7k2m")
def accept(server: RemoteServer, run: PassKey, numbers: Numbers = None, as_json: AsJson = False) -> None:
    """Publish what of a pass waits for a person, all of it or single changes."""
    found = server.ask(lambda client: client.accept_pass(run, numbers=numbers or ()))
    _print_result(found, as_json, "nothing of it waits")


@app.command(epilog="Example: circadia sleeptime refuse pas_0cwd4f7k2m --change 3")
def refuse(server: RemoteServer, run: PassKey, numbers: Numbers = None, as_json: AsJson = False) -> None:
    """Refuse what of a pass waits for a person, all of it or single changes: it will not come about."""
    found = server.ask(lambda client: client.refuse_pass(run, numbers=numbers or ()))
    _print_result(found, as_json, "nothing of it waits")


@app.command(epilog="Example: circadia sleeptime cancel pas_0cwd4f7k2m")
def cancel(server: RemoteServer, run: PassKey, as_json: AsJson = False) -> None:
    """End a pass; what it has published stays."""
    found = server.ask(lambda client: client.cancel_pass(run))
    if as_json:
        print_json(found)
    else:
        note(f"pass {found['id']} over {found['bank']}: {found['status']}")


def _print_result(found: PassChangedAnswer, as_json: bool, nothing: str) -> None:
    if as_json:
        print_json(found)
        return
    if not found["changes"]:
        note(f"pass {found['pass']['id']}: {nothing}")
        return
    print_changes(found["changes"])
    states = Counter(each["state"] for each in found["changes"])
    note(f"pass {found['pass']['id']}: " + ", ".join(f"{number} {state}" for state, number in states.items()))


async def _wait_for_pass(client: Client, key: str) -> PassDetailAnswer:
    """Return the pass when it has ended; tell a person how it goes meanwhile."""
    clock, last = SystemClock(), ""
    with Console(stderr=True, quiet=not sys.stderr.isatty()).status("waiting for a worker") as line:
        while True:
            found = await client.show_pass(key)
            if found["status"] not in _OPEN:
                return found
            told = _progress(found)
            if told != last:
                line.update(Text(display_text(told)))
                last = told
            await clock.sleep(LOOK_SECONDS)


def _progress(found: PassAnswer) -> str:
    spent = found["spent"]
    words = [found["status"], found["detail"] if found["status"] == "pending" else ""]
    words += [
        f"episodes to {found['after']} of {found['upto']}",
        f"{spent['calls']} calls",
        f"{spent['tokens']} tokens",
    ]
    return " · ".join(each for each in [*words, format_price(spent), _counts(found["counts"])] if each)


def _show(found: PassDetailAnswer) -> None:
    spent = found["spent"]
    flags = [name.replace("_", " ") for name in ("dry_run", "review", "full") if found[name]]
    rows = [
        ("begun for", found["trigger"] + (f", asked by {found['by']}" if found["by"] else "")),
        ("instructions", found["instructions"] or None),
        ("operations", found["operations"] or "those of the bank's policy"),
        ("kind", flags or "writes"),
        ("asked", local_time(found["created_at"])),
        ("ended", None if found["ended_at"] is None else local_time(found["ended_at"])),
        ("input", f"episodes up to {found['upto']}; worked through to {found['after']}"),
        ("status", Text(found["status"], COLOURS.get(found["status"], ""))),
        ("detail", found["detail"] or None),
        ("changes", _counts(found["counts"]) or "none"),
        ("generation", f"{found['generation_before']} → {found['generation_after'] or found['generation_before']}"),
        ("cost", f"{spent['calls']} calls, {spent['tokens']:,} tokens, {format_price(spent)}"),
    ]
    console().print(table((found["id"], display_text(found["bank"])), rows))
    if found["ledger"]:
        columns = ("operation", "model", "calls", "failed", "tokens", "cost", "seconds")
        lines = [
            (each["operation"], each["model"], each["calls"], each["failed"], each["tokens"], format_price(each),
             f"{each['seconds']:.1f}")
            for each in found["ledger"]
        ]  # fmt: skip
        console().print()
        console().print(table(columns, lines, numbers=columns[2:]))
    for each in found["errors"]:
        console().print(Text(display_text(each), "red"))


def _row(each: PassAnswer) -> tuple[object, ...]:
    spent = each["spent"]
    return (
        each["id"],
        local_time(each["created_at"]),
        each["trigger"],
        each["by"],
        Text(each["status"] + (" (dry run)" if each["dry_run"] else ""), COLOURS.get(each["status"], "")),
        _counts(each["counts"]),
        spent["calls"],
        f"{spent['tokens']:,}",
        format_price(spent),
        format_duration(_run_seconds(each)),
        each["detail"],
    )


def _run_seconds(each: PassAnswer) -> float:
    if each["status"] == "running" and each["started_at"] is not None:
        return each["run_seconds"] + (SystemClock().now() - parse_instant(each["started_at"])).total_seconds()
    return each["run_seconds"]


def _counts(counts: Mapping[str, int]) -> str:
    return compact(dict(counts))
