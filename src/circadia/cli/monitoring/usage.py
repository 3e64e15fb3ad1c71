"""`circadia usage`: tokens and cost of model calls."""

from enum import StrEnum
from typing import Annotated

import typer

from circadia.cli.remote.connection import RemoteServer
from circadia.cli.remote.reference import OnlyAgent, OnlySession
from circadia.cli.terminal.output import AsJson, console, dollars, format_duration, note, print_json, table
from circadia.records.end_user import display_alias
from circadia.schemas.usage import UsageLine

app = typer.Typer()


class UsageGrouping(StrEnum):
    AGENT = "agent"
    MODEL = "model"
    TIER = "tier"
    SESSION = "session"
    UPSTREAM = "upstream"
    END_USER = "end_user"
    CONVERSATION = "conversation"
    DAY = "day"


@app.command(epilog="Example: circadia usage --by model --since 2026-11-01")
def usage(
    server: RemoteServer,
    by: Annotated[UsageGrouping, typer.Option("--by", help="Group by this; days are in UTC.")] = UsageGrouping.AGENT,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Calls since this date or time; UTC if no zone.")
    ] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="Calls before this time.")] = None,
    session: OnlySession = None,
    agent: OnlyAgent = None,
    as_json: AsJson = False,
) -> None:
    """Sum up the ended model calls: tokens, cost at list prices, time held."""
    report = server.ask(lambda client: client.usage(by.value, since=since, until=until, session=session, agent=agent))
    if as_json:
        print_json(report)
        return
    called = display_alias if by is UsageGrouping.END_USER else str
    lines: list[tuple[str, UsageLine]] = [(called(line.key or "–"), line) for line in report.usage]
    rows = [_row(key, line) for key, line in (*lines, ("total", report.total))]
    columns = (by.value, "calls", "failed", "in", "cached", "out", "reasoning", "cost", "held")
    console().print(table(columns, rows, numbers=columns[1:]))
    _tell_gaps(report.total)


def _row(key: str, line: UsageLine) -> tuple[str, ...]:
    counts = ("calls", "failed", "input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens")
    return (
        key,
        *(f"{getattr(line, name):,}" for name in counts),
        dollars(line.cost_usd),
        format_duration(line.held_seconds),
    )


def _tell_gaps(total: UsageLine) -> None:
    if total.unknown:
        note(f"not in the tokens: calls whose provider reported no usage ({total.unknown})")
    if total.unpriced:
        note(f"not in the cost: calls of models with no known list price ({total.unpriced})")
