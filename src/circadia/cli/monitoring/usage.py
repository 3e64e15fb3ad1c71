"""`circadia usage` and `circadia savings`: tokens and cost of model calls, and what was saved."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer

from circadia.cli.arguments import OnlyAgent, OnlySession
from circadia.cli.connection import ALL_ROWS, RemoteServer
from circadia.cli.terminal.output import Output, console, dollars, format_duration, note, table
from circadia.records.conversation import display_alias
from circadia.schemas.fleet import SavingsReport, UsageLine, UsageReport

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


@app.command(epilog="Example: circadia usage --by day --by tier --since 2026-11-01")
def usage(
    server: RemoteServer,
    by: Annotated[
        list[UsageGrouping] | None,
        typer.Option("--by", help="Group by this, or by two; `agent` by default. Days are in UTC."),
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Calls since this date or time; UTC if no zone.")
    ] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="Calls before this time.")] = None,
    session: OnlySession = None,
    agent: OnlyAgent = None,
) -> Output:
    """Sum up the ended model calls: tokens, cost at list prices, time held."""
    groupings = by or [UsageGrouping.AGENT]
    report = server.list_pages(
        lambda client, after, limit: client.usage(
            ",".join(groupings), since=since, until=until, session=session, agent=agent, after=after, limit=limit
        ),
        "usage",
        limit=ALL_ROWS,
        cursor="next",
    )
    return Output(report, lambda _: _show_usage(groupings, report))


def _show_usage(groupings: Sequence[UsageGrouping], report: UsageReport) -> None:
    rows = [(*_format_keys(groupings, line.keys), *_format_totals(line)) for line in report.usage]
    rows.append(("total", *("" for _ in groupings[1:]), *_format_totals(report.total)))
    numbers = ("calls", "failed", "in", "cached", "out", "reasoning", "cost", "held")
    console().print(table((*groupings, *numbers), rows, numbers=numbers))
    if report.total.unknown:
        note(f"not in the tokens: calls whose provider reported no usage ({report.total.unknown})")
    if report.total.unpriced:
        note(f"not in the cost: calls of models with no known list price ({report.total.unpriced})")


def _format_keys(groupings: Sequence[UsageGrouping], keys: Sequence[str]) -> tuple[str, ...]:
    return tuple(
        display_alias(key or "–") if grouping is UsageGrouping.END_USER else key or "–"
        for grouping, key in zip(groupings, keys, strict=True)
    )


def _format_totals(line: UsageLine) -> tuple[str, ...]:
    counts = ("calls", "failed", "input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens")
    return (
        *(f"{getattr(line, name):,}" for name in counts),
        dollars(line.cost_usd),
        format_duration(line.held_seconds),
    )


@app.command(epilog="Example: circadia savings --days 6")
def savings(
    server: RemoteServer,
    days: Annotated[int, typer.Option("--days", min=0, max=92, help="Days before today that are listed, too.")] = 13,
) -> Output:
    """Estimate what sleeping and dreaming saved, by day.

    An agent that polls would have made a call every 5 minutes while its call was held, at the mean price of that day's
    calls of the same model.
    """
    return Output(server.ask(lambda client: client.report_savings(days=days)), _show_savings)


def _show_savings(report: SavingsReport) -> None:
    columns = ("day", "calls held for", "by sleeping", "by memory", "dreaming cost", "saved")
    rows = [
        (
            day.day.isoformat(), format_duration(day.held_seconds), dollars(day.sleeping_usd), dollars(day.memory_usd),
            dollars(day.dreaming_usd), dollars(day.saved_usd),
        )
        for day in report.days
    ]  # fmt: skip
    console().print(table(columns, rows, numbers=columns[1:]))
    if report.mean_usd is not None:
        note(f"mean of the days before today: {dollars(report.mean_usd)}")
    note(f"30 days such as today, so far: {dollars(report.month_usd)}")
