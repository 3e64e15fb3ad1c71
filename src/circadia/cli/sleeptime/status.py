"""`circadia sleeptime status`, `why-not`, `pause` and `resume`: how it stands in a bank."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from circadia.cli.remote.connection import RemoteServer
from circadia.cli.terminal.output import (
    AsJson,
    console,
    display_text,
    dollars,
    format_duration,
    local_time,
    note,
    parse_instant,
    print_json,
    table,
    time_since,
)
from circadia.client.sleep_answers import BalanceAnswer, SleeptimeAnswer, SleeptimeStatusAnswer
from circadia.clock import SystemClock

app = typer.Typer()

Bank = Annotated[str, typer.Option("--bank", metavar="BANK", help="Name of the bank, or of a template.")]
"""The bank that a command is about."""
User = Annotated[
    str | None, typer.Option("--user", metavar="NAME", help="Whose bank, where BANK is a template: support-{user}.")
]
"""The end user whose bank a template means."""

_COLUMNS: Final = ("bank", "waiting", "turns", "lag", "pass", "next", "failed", "spent", "wrong")
_BALANCE: Final = ("operation", "uses", "saved tokens", "saved", "spent tokens", "spent", "ratio", "stands")
_LETTERS: Final = 60


@app.command(epilog="Example: circadia sleeptime status")
def status(
    server: RemoteServer,
    bank: Annotated[
        str | None, typer.Option("--bank", metavar="BANK", help="This bank; else all that have work.")
    ] = None,
    user: User = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, metavar="N", help="So many banks at most.")] = 100,
    as_json: AsJson = False,
) -> None:
    """Show what waits and what runs, in one bank or in all that have work."""
    if bank is not None:
        one = server.ask(lambda client: client.show_sleeptime(bank, user=user))
        if as_json:
            print_json(one)
        else:
            _show(one)
        return
    found = server.ask(lambda client: client.show_sleeptime_of_all(limit=limit))
    if as_json:
        print_json(found)
    else:
        _show_all(found)


@app.command("why-not", epilog="Example: circadia sleeptime why-not --bank team")
def why_not(server: RemoteServer, bank: Bank, user: User = None, as_json: AsJson = False) -> None:
    """Tell why no pass over a bank begins now, or what one would begin for."""
    found = server.ask(lambda client: client.show_sleeptime(bank, user=user))
    if as_json:
        print_json({"bank": found["bank"], **found["verdict"]})
        return
    verdict = found["verdict"]
    if verdict["due"]:
        typer.echo(
            f"a pass over {display_text(found['bank'])} is due: {display_text(verdict['why'])} ({verdict['trigger']})"
        )
        return
    typer.echo(f"{display_text(found['bank'])}: {display_text(verdict['why'])} (gate {verdict['gate']})")
    if verdict["at"] is not None:
        typer.echo(f"looked at again at {local_time(verdict['at'])}, {_time_until(verdict['at'])}")


@app.command(epilog="Example: circadia sleeptime pause --bank team")
def pause(server: RemoteServer, bank: Bank, user: User = None, as_json: AsJson = False) -> None:
    """Let no more pass begin over a bank; one that runs ends at its next step."""
    found = server.ask(lambda client: client.pause_sleeptime(bank, user=user))
    if as_json:
        print_json(found)
    else:
        note(f"passes over {found['bank']} are paused; `circadia sleeptime resume --bank {found['bank']}` goes on")


@app.command(epilog="Example: circadia sleeptime resume --bank team")
def resume(server: RemoteServer, bank: Bank, user: User = None, as_json: AsJson = False) -> None:
    """Let passes begin again, also those that wait after failures, and operations that were paused."""
    found = server.ask(lambda client: client.resume_sleeptime(bank, user=user))
    if as_json:
        print_json(found)
    else:
        note(f"{found['bank']}: {found['verdict']['why']}")


def _show(found: SleeptimeStatusAnswer) -> None:
    backlog, spent, running = found["backlog"], found["spent"], found["running"]
    now = SystemClock().now()
    rows = [
        ("when", found["policy"]["when"]),
        *((f"  {trigger}", words) for trigger, words in found["begins"].items()),
        ("  hand", "when it is asked for"),
        ("waiting", f"{backlog['episodes']} episodes, {backlog['turns']} completed turns"),
        ("oldest", "–" if backlog["oldest_at"] is None else f"{time_since(backlog['oldest_at'], now)} ago"),
        ("pass", "none runs" if running is None else f"{running['id']} {running['status']} {running['detail']}"),
        ("next", _next(found)),
        (
            "last complete",
            "never" if found["succeeded_at"] is None else f"{time_since(found['succeeded_at'], now)} ago",
        ),
        ("failed in a row", found["failures"]),
        (
            "spent today",
            f"{spent['calls']} calls, {spent['tokens']:,} tokens, {format_price(spent)}, "
            f"{format_duration(spent['seconds'])}",
        ),
    ]
    for each in found["leftovers"]:
        word = "set apart" if each["quarantined"] else "tried again"
        rows.append((word, f"episodes {each['first']} to {each['last']}: {each['cause']}"))
    console().print(table((display_text(found["bank"]), ""), rows))
    if found["balances"]:
        lines = [_balance(each) for each in found["balances"]]
        console().print(table(_BALANCE, lines, numbers=_BALANCE[1:7]))
    if found["red"]:
        console().print(Text(display_text(found["red"]), "red"))


def _balance(each: BalanceAnswer) -> tuple[object, ...]:
    paused = each["paused_until"]
    return (
        each["operation"],
        each["uses"],
        f"{each['saved_tokens']:,}",
        format_price({"tokens": each["saved_tokens"], "usd": each["saved_usd"]}),
        f"{each['spent_tokens']:,}",
        format_price({"tokens": each["spent_tokens"], "usd": each["spent_usd"]}),
        "–" if each["ratio"] is None else f"{each['ratio']:.2f}",
        each["standing"] if paused is None else f"paused until {local_time(paused)}",
    )


def _show_all(found: SleeptimeAnswer) -> None:
    counts = ", ".join(f"{number} {name}" for name, number in found["passes"].items() if number)
    spent = found["spent"]
    if found["banks"]:
        numbers = ("waiting", "turns", "failed", "spent")
        console().print(table(_COLUMNS, [_row(each) for each in found["banks"]], numbers=numbers))
    else:
        note("nothing waits in any bank")
    if found["more"]:
        note(f"{found['more']} more banks have work; --limit shows them")
    note(f"passes: {counts or 'none yet'}; spent today: {spent['tokens']:,} tokens, {format_price(spent)}")


def _row(each: SleeptimeStatusAnswer) -> tuple[object, ...]:
    running = each["running"]
    return (
        each["bank"],
        each["backlog"]["episodes"],
        each["backlog"]["turns"],
        format_duration(each["lag_seconds"]),
        None if running is None else running["status"],
        _next(each)[:_LETTERS],
        each["failures"],
        format_price(each["spent"]),
        Text(display_text(each["red"]), "red"),
    )


def format_price(spent: Mapping[str, Any]) -> str:
    """Return the price of what has so many `tokens` and `usd`: none is known, or asked, where tokens cost nothing."""
    return "no price" if spent["tokens"] and not spent["usd"] else dollars(spent["usd"])


def _next(found: SleeptimeStatusAnswer) -> str:
    verdict = found["verdict"]
    if verdict["due"]:
        return f"now: {verdict['why']}"
    return f"{verdict['gate']}: {verdict['why']}"


def _time_until(at: str) -> str:
    return f"in {format_duration((parse_instant(at) - SystemClock().now()).total_seconds())}"
