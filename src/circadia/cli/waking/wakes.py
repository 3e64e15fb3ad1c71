"""`circadia wakes`: wake requests, their decisions, and what would be decided under other limits."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.text import Text

from circadia.cli.agents.coordination import settings_of
from circadia.cli.remote.connection import RemoteServer
from circadia.cli.remote.paging import Limit, gather_pages
from circadia.cli.remote.reference import Session, full_reference
from circadia.cli.terminal.groups import NounGroup
from circadia.cli.terminal.output import (
    AsJson,
    Listing,
    console,
    display_text,
    local_time,
    note,
    print_json,
    print_list,
    print_result,
    table,
)
from circadia.cli.waking import chain
from circadia.cli.waking.replay import ReplayData, fetch_replay_data
from circadia.client import Client
from circadia.errors import InvalidRequest
from circadia.ids import AgentId
from circadia.records.wake import Decision, WakeReason
from circadia.schemas.wakes import WakeDetail, WakeList, WakeOutcome, WakePairCounts, WakeView
from circadia.wake.admission import replay as replaying

app = typer.Typer(cls=NounGroup)
app.add_typer(chain.app)

WIDEST = 12
"""Maximum number of targets in a matrix; more are printed as a list."""
_COLOURS = {"admitted": "green", "coalesced": "green", "deferred": "yellow", "refused": "red", "expired": "red"}

WakeKey = Annotated[str, typer.Argument(metavar="WAKE", help="Wake request ID.")]
Since = Annotated[
    str | None, typer.Option("--since", metavar="TIME", help="Asked since this date or time; UTC if no zone.")
]


@app.callback(epilog="Example: circadia wakes --agent writer --decision refused")
def wakes(
    server: RemoteServer,
    agent: Annotated[str | None, typer.Option("--agent", metavar="AGENT", help="Wakes of this agent.")] = None,
    sender: Annotated[str | None, typer.Option("--from", metavar="AGENT", help="Asked by this agent.")] = None,
    decision: Annotated[Decision | None, typer.Option("--decision", help="Only requests with this decision.")] = None,
    since: Since = None,
    limit: Limit = 50,
    session: Session = None,
    as_json: AsJson = False,
) -> None:
    """List wake requests with their decision and its reason, newest first."""
    whom, who = (None if agent_name is None else full_reference(agent_name, session) for agent_name in (agent, sender))
    became = None if decision is None else decision.value

    async def fetch_wakes(client: Client) -> WakeList:
        return await gather_pages(
            lambda place, count: client.list_wakes(
                agent=whom, sender=who, decision=became, since=since, before=place, limit=count
            ),
            key="wakes",
            limit=limit,
        )

    page = server.ask(fetch_wakes)
    columns = ("wake", "asked", "agent", "from", "for", "decision", "why")
    more = page.before is not None
    print_list(page, page.wakes, columns, _row, as_json=as_json, nothing="no wake", more=more)


@app.command(epilog="Example: circadia wakes explain wak_0cwd4f7k2m")
def explain(server: RemoteServer, wake: WakeKey, as_json: AsJson = False) -> None:
    """Show the decision on a wake request, and the result of each guardrail."""
    details = server.ask(lambda client: client.show_wake(wake))
    why = ": ".join(part for part in (details.rule, details.detail) if part)
    request = f"{details.sender} asked to wake {details.agent} for {details.reason}"
    _show_trace(details, f"{request}: {details.decision}" + (f" ({why})" if why else ""), as_json=as_json)


@app.command("why-not", epilog="Example: circadia wakes why-not writer --from lead")
def why_not(
    server: RemoteServer,
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="Agent to wake, as `name` or `session:name`.")],
    sender: Annotated[
        str | None, typer.Option("--from", metavar="AGENT", help="Agent that would make the request; defaults to you.")
    ] = None,
    reason: Annotated[WakeReason, typer.Option("--reason", help="Reason for the wake.")] = WakeReason.USER_REQUEST,
    override: Annotated[
        str | None, typer.Option("--override", metavar="WHY", help="Assume that you override the guardrails.")
    ] = None,
    session: Session = None,
    as_json: AsJson = False,
) -> None:
    """Show what would be decided now, and the result of each guardrail. Writes nothing and wakes nobody."""
    whom, who = full_reference(agent, session), None if sender is None else full_reference(sender, session)
    answer = server.ask(
        lambda client: client.wake_agent(whom, reason.value, dry_run=True, sender=who, override=override)
    )
    _show_trace(answer, answer.summary, as_json=as_json)


def _show_trace(document: WakeDetail | WakeOutcome, summary: str, *, as_json: bool) -> None:
    if as_json:
        print_json(document)
        return
    rows = [
        (
            check.rule,
            Text("passes", "green") if check.passed else Text("fails", "red"),
            _number(check.value),
            _number(check.limit),
            check.detail,
        )
        for check in document.trace
    ]
    console().print(table(("guardrail", "result", "counts", "limit", "why"), rows, numbers=("counts", "limit")))
    typer.echo(display_text(summary))


@app.command("replay", epilog="Example: circadia wakes replay --since 2026-11-01 --set max_wakes_per_day=4")
def replay_wakes(
    server: RemoteServer,
    since: Annotated[
        str,
        typer.Option("--since", metavar="TIME", help="Since this date or time; UTC if no zone.", show_default=False),
    ],
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Limit to try, such as max_wakes_per_day=4.")
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="AGENT", help="Try the limits on this agent only.")
    ] = None,
    limit: Limit = 10_000,
    session: Session = None,
    as_json: AsJson = False,
) -> None:
    """Show which recorded decisions would change under other limits."""
    start = _instant(since)
    changes = replaying.settings_to_replay(settings_of(settings or []))
    data = server.ask(lambda client: fetch_replay_data(client, start, limit=limit))
    only = None if agent is None else AgentId(full_reference(agent, session).removeprefix("default:"))
    outcomes = [
        outcome
        for outcome in replaying.replay(data.wakes, changes, data.coordinations, since=start, only=only)
        if outcome.wake.at >= start and only in (None, outcome.wake.agent_id)
    ]
    if as_json:
        print_json(_replay_document(outcomes, data))
    else:
        _show_replay(outcomes, data)


@app.command(epilog="Example: circadia wakes matrix --since 2026-11-01")
def matrix(server: RemoteServer, since: Since = None, as_json: AsJson = False) -> None:
    """Show how often each sender asked to wake each target, and how many requests were not granted."""
    pairs = server.ask(lambda client: client.wake_matrix(since=since))
    if as_json:
        print_json({"pairs": pairs})
    elif pairs:
        console().print(matrix_table(pairs))
    else:
        note("no wake")


@app.command(epilog="Example: circadia wakes cancel wak_0cwd4f7k2m")
def cancel(server: RemoteServer, wake: WakeKey, as_json: AsJson = False) -> None:
    """Cancel a deferred request. Its message stays in the inbox."""
    cancelled = server.ask(lambda client: client.cancel_wake(wake))
    text = f"wake {cancelled.id} of {cancelled.agent}: {cancelled.decision}"
    print_result(cancelled, text, as_json=as_json)


def matrix_table(pairs: Sequence[WakePairCounts]) -> Listing:
    """Return a matrix with a row per sender and a column per target, or a list if it would be too wide."""
    targets = sorted({pair.to for pair in pairs})
    if len(targets) > WIDEST:
        rows = [(pair.sender, pair.to, pair.total, _not_granted(pair)) for pair in pairs]
        return table(("from", "to", "asked", "not granted"), rows, numbers=("asked", "not granted"))
    cells = {(pair.sender, pair.to): pair for pair in pairs}
    senders = sorted({pair.sender for pair in pairs})
    rows = [(name, *(_cell(cells.get((name, target))) for target in targets)) for name in senders]
    return table(("from \\ to", *map(display_text, targets)), rows, numbers=targets)


def _not_granted(pair: WakePairCounts) -> int:
    return sum(pair.decisions.get(decision, 0) for decision in (Decision.REFUSED, Decision.EXPIRED))


def _cell(pair: WakePairCounts | None) -> Text:
    if pair is None:
        return Text("·", "dim")
    against = _not_granted(pair)
    return Text.assemble(str(pair.total), (f" ({against} not)" if against else "", "red"))


def _row(wake: WakeView) -> tuple[object, ...]:
    return (
        wake.id,
        local_time(wake.at),
        wake.agent,
        wake.sender,
        wake.reason,
        Text(wake.decision, _COLOURS.get(wake.decision, "")),
        ": ".join(part for part in (wake.rule, wake.detail) if part),
    )


def _replay_document(outcomes: Sequence["replaying.ReplayOutcome"], data: ReplayData) -> dict[str, Any]:
    return {
        "replayed": len(outcomes),
        "complete": data.complete,
        "was": Counter(outcome.wake.decision.value for outcome in outcomes),
        "would_be": Counter(outcome.decision.value for outcome in outcomes),
        "changed": [
            {
                "wake": outcome.wake.id, "at": outcome.wake.at.isoformat(), "agent": outcome.wake.agent,
                "from": outcome.wake.sender, "was": outcome.wake.decision.value, "would_be": outcome.decision.value,
                "rule": outcome.rule, "limit": outcome.limit, "value": outcome.value, "assumed": list(outcome.assumed),
            }
            for outcome in outcomes
            if outcome.is_changed
        ],
    }  # fmt: skip


def _show_replay(outcomes: Sequence["replaying.ReplayOutcome"], data: ReplayData) -> None:
    changed = [outcome for outcome in outcomes if outcome.is_changed]
    typer.echo(f"{len(changed)} of {len(outcomes)} decisions would change")
    was, would = (Counter(group) for group in ([o.wake.decision for o in outcomes], [o.decision for o in outcomes]))
    counts = [
        (decision.value, was[decision], would[decision]) for decision in Decision if was[decision] or would[decision]
    ]
    if counts:
        console().print(table(("decision", "was", "would be"), counts, numbers=("was", "would be")))
    if changed:
        typer.echo()
        rows = [
            (
                line.wake.id,
                local_time(line.wake.at),
                line.wake.agent,
                line.wake.sender,
                line.wake.decision.value,
                Text(line.decision.value, _COLOURS.get(line.decision.value, "")),
                f"{line.rule}: {_number(line.value)} of {_number(line.limit)}" if line.rule else "",
                line.assumed or "",
            )
            for line in changed
        ]
        columns = ("wake", "asked", "agent", "from", "was", "would be", "guardrail", "no record of")
        console().print(table(columns, rows))
    if not data.complete:
        note("there are older requests; raise --limit to include them")


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}".removesuffix("0").removesuffix(".0").removesuffix(".")


def _instant(text: str) -> datetime:
    """Return the instant of a date or time. Raises InvalidRequest if it is malformed."""
    try:
        instant = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidRequest(
            f"--since {text!r} is no date or time; write one such as 2026-01-31 or 2026-01-31T12:00:00Z"
        ) from error
    return instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)
