"""`circadia passes status`, `why-not`, `pause` and `resume`: the state of passes over a bank."""

from typing import Final

import typer
from rich.text import Text

from circadia.cli.arguments import Bank, User
from circadia.cli.connection import RemoteServer
from circadia.cli.terminal.output import (
    Output,
    console,
    display_text,
    dollars,
    format_duration,
    local_time,
    note,
    table,
    time_since,
)
from circadia.clock import SystemClock
from circadia.schemas.passes import BalanceView, EmbeddingView, PassCostView, SleeptimeStatusView, SleeptimeView

app = typer.Typer()

_COLUMNS: Final = ("bank", "waiting", "turns", "lag", "pass", "next", "failed", "spent", "problem")
_BALANCE: Final = ("operation", "uses", "saved tokens", "saved", "spent tokens", "thinking", "spent")
_LETTERS: Final = 60
NO_MODEL: Final = "none: passes ask no model, and make simpler notes; see `sleeptime.model`"


@app.command(epilog="Example: circadia passes status team")
def status(server: RemoteServer, bank: Bank, user: User = None) -> Output:
    """Show what waits and runs in a bank, which triggers begin a pass, and what passes saved and spent."""
    return Output(server.ask(lambda client: client.show_sleeptime(bank, user=user)), _show)


@app.command("why-not", epilog="Example: circadia passes why-not team")
def why_not(server: RemoteServer, bank: Bank, user: User = None) -> Output:
    """Show why no pass over a bank starts now, or what would trigger one."""
    answer = server.ask(lambda client: client.show_sleeptime(bank, user=user))
    verdict = answer.verdict
    if verdict.due:
        text = f"a pass over {answer.bank} is due: {verdict.why} ({verdict.trigger})"
    else:
        text = f"{answer.bank}: {verdict.why} (gate {verdict.gate})"
        if verdict.at is not None:
            wait = format_duration((verdict.at - SystemClock().now()).total_seconds())
            text += f"\nlooked at again at {local_time(verdict.at)}, in {wait}"
    return Output({"bank": answer.bank, **verdict.model_dump(mode="json")}, text)


@app.command(epilog="Example: circadia passes pause team")
def pause(server: RemoteServer, bank: Bank, user: User = None) -> Output:
    """Pause passes over a bank. A running pass ends at its next step."""
    answer = server.ask(lambda client: client.pause_sleeptime(bank, user=user))
    return Output(answer, f"paused passes over {answer.bank}; to go on: `circadia passes resume {answer.bank}`")


@app.command(epilog="Example: circadia passes resume team")
def resume(server: RemoteServer, bank: Bank, user: User = None) -> Output:
    """Resume passes over a bank, including those that wait after failures."""
    answer = server.ask(lambda client: client.resume_sleeptime(bank, user=user))
    return Output(answer, f"{answer.bank}: {answer.verdict.why}")


def _show(answer: SleeptimeStatusView) -> None:
    backlog, spent, running = answer.backlog, answer.spent, answer.running
    now = SystemClock().now()
    rows = [
        ("model", answer.model or NO_MODEL),
        ("when", answer.policy["when"]),
        *((f"  {trigger}", words) for trigger, words in answer.begins.items()),
        ("  hand", "on request"),
        ("waiting", f"{backlog.episodes} episodes, {backlog.turns} completed turns"),
        ("oldest", "–" if backlog.oldest_at is None else f"{time_since(backlog.oldest_at, now)} ago"),
        ("pass", "none runs" if running is None else f"{running.id} {running.status} {running.detail}"),
        ("next", _next(answer)),
        ("last complete", "never" if answer.succeeded_at is None else f"{time_since(answer.succeeded_at, now)} ago"),
        ("failed in a row", answer.failures),
        (
            "spent today",
            f"{spent.calls} calls, {spent.tokens:,} tokens, {format_price(spent.tokens, spent.usd)}, "
            f"{format_duration(spent.seconds)}",
        ),
    ]
    if answer.embedding is not None:
        rows.append(("embedding", _describe_embedding(answer.embedding)))
    for leftover in answer.leftovers:
        word = "set apart" if leftover.quarantined else "tried again"
        rows.append((word, f"episodes {leftover.first} to {leftover.last}: {leftover.cause}"))
    console().print(table((display_text(answer.bank), ""), rows))
    if answer.balances:
        lines = [_balance(balance) for balance in answer.balances]
        console().print(table(_BALANCE, lines, numbers=_BALANCE[1:]))
    if answer.red:
        console().print(Text(display_text(answer.red), "red"))


def _describe_embedding(embedding: EmbeddingView) -> str:
    since = "" if embedding.failing_since is None else f"; fails since {local_time(embedding.failing_since)}"
    return f"{embedding.waiting} texts wait{since}"


def _balance(each: BalanceView) -> tuple[object, ...]:
    return (
        each.operation,
        each.uses,
        f"{each.saved_tokens:,}",
        format_price(each.saved_tokens, each.saved_usd),
        f"{each.spent_tokens:,}",
        format_thinking(each),
        format_price(each.spent_tokens, each.spent_usd),
    )


def show_all(answer: SleeptimeView) -> None:
    counts = ", ".join(f"{number} {name}" for name, number in answer.passes.items() if number)
    spent = answer.spent
    if answer.banks:
        numbers = ("waiting", "turns", "failed", "spent")
        console().print(table(_COLUMNS, [_row(bank) for bank in answer.banks], numbers=numbers))
    else:
        note("nothing waits in any bank")
    if any(bank.model is None for bank in answer.banks):
        note(f"model: {NO_MODEL}")
    failing = [bank.embedding.failing_since for bank in answer.banks if bank.embedding and bank.embedding.failing_since]
    if failing:
        note(f"embedding fails since {local_time(failing[0])}: new texts are found by their words alone")
    if answer.more:
        note(f"{answer.more} more banks have work; --limit shows them")
    note(
        f"passes: {counts or 'none yet'}; spent today: {spent.tokens:,} tokens, {format_price(spent.tokens, spent.usd)}"
    )


def _row(each: SleeptimeStatusView) -> tuple[object, ...]:
    running = each.running
    return (
        each.bank,
        each.backlog.episodes,
        each.backlog.turns,
        format_duration(each.lag_seconds),
        None if running is None else running.status,
        _next(each)[:_LETTERS],
        each.failures,
        format_price(each.spent.tokens, each.spent.usd),
        Text(display_text(each.red), "red"),
    )


def format_price(tokens: int, usd: float) -> str:
    """Return the price, or "no price" for tokens without one: unknown or free."""
    return "no price" if tokens and not usd else dollars(usd)


def format_thinking(spent: PassCostView | BalanceView) -> str:
    """Return the tokens for thinking with their price; "0" without any."""
    price = f", {format_price(spent.thinking_tokens, spent.thinking_usd)}" if spent.thinking_tokens else ""
    return f"{spent.thinking_tokens:,}{price}"


def _next(answer: SleeptimeStatusView) -> str:
    verdict = answer.verdict
    return f"{'now' if verdict.due else verdict.gate}: {verdict.why}"
