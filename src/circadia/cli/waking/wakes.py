"""`circadia wakes`: requests to wake agents, what was decided, and what would be."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.text import Text

from circadia.cli.remote.connection import RemoteServer
from circadia.cli.remote.paging import gather_pages
from circadia.cli.remote.reference import Session, full_reference
from circadia.cli.terminal.output import AsJson, Listing, console, display_text, local_time, note, print_json, table
from circadia.cli.waking.coordination import settings_of
from circadia.cli.waking.replay import ReplayData, fetch_replay_data
from circadia.client import Client
from circadia.errors import InvalidRequest
from circadia.ids import AgentId
from circadia.records.wake import Decision, WakeReason
from circadia.wake.admission import replay as replaying

app = typer.Typer()

WIDEST = 12
"""Targets that a matrix has room for; more are listed."""
_COLOURS = {"admitted": "green", "coalesced": "green", "deferred": "yellow", "refused": "red", "expired": "red"}

Since = Annotated[
    str | None, typer.Option("--since", metavar="TIME", help="Asked from this date or time on; UTC if no zone.")
]
Limit = Annotated[int, typer.Option("--limit", min=1, max=100_000, metavar="N", help="So many at most.")]


@app.callback(invoke_without_command=True, epilog="Example: circadia wakes --agent writer --decision refused")
def wakes(
    server: RemoteServer,
    context: typer.Context,
    agent: Annotated[str | None, typer.Option("--agent", metavar="AGENT", help="To wake this one only.")] = None,
    sender: Annotated[str | None, typer.Option("--from", metavar="AGENT", help="Asked by this one only.")] = None,
    decision: Annotated[Decision | None, typer.Option("--decision", help="Decided so only.")] = None,
    since: Since = None,
    limit: Limit = 50,
    session: Session = None,
    as_json: AsJson = False,
) -> None:
    """List requests to wake agents, the newest first, with what was decided and why."""
    if context.invoked_subcommand is not None:
        return
    whom, who = (None if each is None else full_reference(each, session) for each in (agent, sender))
    became = None if decision is None else decision.value

    async def fetch_wakes(client: Client) -> dict[str, Any]:
        return await gather_pages(
            lambda place, count: client.list_wakes(
                agent=whom, sender=who, decision=became, since=since, before=place, limit=count
            ),
            key="wakes",
            limit=limit,
        )

    found = server.ask(fetch_wakes)
    if as_json:
        print_json(found)
    elif found["wakes"]:
        columns = ("wake", "asked", "agent", "from", "for", "decision", "why")
        console().print(table(columns, [_row(each) for each in found["wakes"]]))
        if found["before"] is not None:
            note(f"more than {limit}; --limit shows them")
    else:
        note("no wake")


@app.command(epilog="Example: circadia wakes explain writer --from lead")
def explain(
    server: RemoteServer,
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="Whom to wake, as `name` or `session:name`.")],
    sender: Annotated[
        str | None, typer.Option("--from", metavar="AGENT", help="Who would ask; without it, you.")
    ] = None,
    reason: Annotated[WakeReason, typer.Option("--reason", help="What for.")] = WakeReason.USER_REQUEST,
    override: Annotated[
        str | None, typer.Option("--override", metavar="WHY", help="As if you let it pass the guardrails.")
    ] = None,
    session: Session = None,
    as_json: AsJson = False,
) -> None:
    """Tell what would be decided now, and what each guardrail says; nothing is written and nobody is woken."""
    whom, who = full_reference(agent, session), None if sender is None else full_reference(sender, session)
    found = server.ask(
        lambda client: client.wake_agent(whom, reason.value, dry_run=True, sender=who, override=override)
    )
    if as_json:
        print_json(found)
        return
    rows = [
        (
            each["rule"],
            Text("passes", "green") if each["passed"] else Text("against", "red"),
            _number(each["value"]),
            _number(each["limit"]),
            each["detail"],
        )
        for each in found["trace"]
    ]
    console().print(table(("guardrail", "says", "counts", "limit", "why"), rows, numbers=("counts", "limit")))
    typer.echo(display_text(found["told"]))


@app.command("replay", epilog="Example: circadia wakes replay --since 2026-11-01 --set max_wakes_per_day=4")
def replay_wakes(
    server: RemoteServer,
    since: Annotated[
        str,
        typer.Option("--since", metavar="TIME", help="From this date or time on; UTC if no zone.", show_default=False),
    ],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A limit that would hold, such as max_wakes_per_day=4."),
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="AGENT", help="It would hold for this agent only.")
    ] = None,
    limit: Limit = 10_000,
    session: Session = None,
    as_json: AsJson = False,
) -> None:
    """Tell which recorded decisions would have been others under other limits."""
    start = _instant(since)
    changes = replaying.settings_to_replay(settings_of(settings or []))
    found = server.ask(lambda client: fetch_replay_data(client, start, limit=limit))
    only = None if agent is None else AgentId(full_reference(agent, session).removeprefix("default:"))
    outcomes = [
        each
        for each in replaying.replay(found.wakes, changes, found.coordinations, since=start, only=only)
        if each.wake.at >= start and only in (None, each.wake.agent_id)
    ]
    if as_json:
        print_json(_replay_document(outcomes, found))
    else:
        _show_replay(outcomes, found)


@app.command(epilog="Example: circadia wakes matrix --since 2026-11-01")
def matrix(server: RemoteServer, since: Since = None, as_json: AsJson = False) -> None:
    """Show who asked to wake whom: how often, and of these how many were not granted."""
    pairs = server.ask(lambda client: client.wake_matrix(since=since))
    if as_json:
        print_json({"pairs": pairs})
    elif pairs:
        console().print(matrix_table(pairs))
    else:
        note("no wake")


@app.command(epilog="Example: circadia wakes cancel wak_0cwd4f7k2m")
def cancel(
    server: RemoteServer,
    wake: Annotated[str, typer.Argument(metavar="WAKE", help="Key of the request.")],
    as_json: AsJson = False,
) -> None:
    """Take back a request that is deferred; its message stays in the inbox."""
    found = server.ask(lambda client: client.cancel_wake(wake))
    if as_json:
        print_json(found)
    else:
        typer.echo(f"wake {found['id']} of {display_text(found['agent'])}: {found['decision']}")


def matrix_table(pairs: Sequence[Mapping[str, Any]]) -> Listing:
    """Return who asks (a line each) to wake whom (a column each); a list where that would be too wide."""
    targets = sorted({each["to"] for each in pairs})
    if len(targets) > WIDEST:
        rows = [(each["from"], each["to"], each["total"], _not_granted(each)) for each in pairs]
        return table(("from", "to", "asked", "not granted"), rows, numbers=("asked", "not granted"))
    cells = {(each["from"], each["to"]): each for each in pairs}
    senders = sorted({each["from"] for each in pairs})
    rows = [(name, *(_cell(cells.get((name, target))) for target in targets)) for name in senders]
    return table(("from \\ to", *map(display_text, targets)), rows, numbers=targets)


def _not_granted(pair: Mapping[str, Any]) -> int:
    return sum(pair["decisions"].get(each, 0) for each in ("refused", "expired"))


def _cell(pair: Mapping[str, Any] | None) -> Text:
    if pair is None:
        return Text("·", "dim")
    against = _not_granted(pair)
    return Text.assemble(str(pair["total"]), (f" ({against} not)" if against else "", "red"))


def _row(wake: Mapping[str, Any]) -> tuple[object, ...]:
    return (
        wake["id"],
        local_time(wake["at"]),
        wake["agent"],
        wake["from"],
        wake["reason"],
        Text(wake["decision"], _COLOURS.get(wake["decision"], "")),
        ": ".join(each for each in (wake["rule"], wake["detail"]) if each),
    )


def _replay_document(outcomes: Sequence["replaying.ReplayOutcome"], found: ReplayData) -> dict[str, Any]:
    """Return the replay as a document."""
    return {
        "replayed": len(outcomes),
        "complete": found.complete,
        "was": Counter(each.wake.decision.value for each in outcomes),
        "would_be": Counter(each.decision.value for each in outcomes),
        "changed": [
            {
                "wake": each.wake.id, "at": each.wake.at.isoformat(), "agent": each.wake.agent,
                "from": each.wake.sender, "was": each.wake.decision.value, "would_be": each.decision.value,
                "rule": each.rule, "limit": each.limit, "value": each.value, "assumed": list(each.assumed),
            }
            for each in outcomes
            if each.is_changed
        ],
    }  # fmt: skip


def _show_replay(outcomes: Sequence["replaying.ReplayOutcome"], found: ReplayData) -> None:
    changed = [each for each in outcomes if each.is_changed]
    typer.echo(f"{len(changed)} of {len(outcomes)} decisions would be others")
    was, would = (Counter(each) for each in ([o.wake.decision for o in outcomes], [o.decision for o in outcomes]))
    counts = [(each.value, was[each], would[each]) for each in Decision if was[each] or would[each]]
    if counts:
        console().print(table(("decision", "was", "would be"), counts, numbers=("was", "would be")))
    if changed:
        typer.echo()
        rows = [
            (
                each.wake.id,
                local_time(each.wake.at.isoformat()),
                each.wake.agent,
                each.wake.sender,
                each.wake.decision.value,
                Text(each.decision.value, _COLOURS.get(each.decision.value, "")),
                f"{each.rule}: {_number(each.value)} of {_number(each.limit)}" if each.rule else "",
                each.assumed or "",
            )
            for each in changed
        ]
        columns = ("wake", "asked", "agent", "from", "was", "would be", "guardrail", "nothing is recorded of")
        console().print(table(columns, rows))
    if not found.complete:
        note("there are older requests; --limit takes more of them")


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}".removesuffix("0").removesuffix(".0").removesuffix(".")


def _instant(text: str) -> datetime:
    """Return the instant of a date or time.

    Raises:
        InvalidRequest: it is none.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidRequest(
            f"--since {text!r} is no date or time; write it as in 2026-01-31 or 2026-01-31T12:00:00Z"
        ) from error
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
