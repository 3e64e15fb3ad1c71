"""`circadia wakes`: wake requests, their decisions and causes, and what would be decided under other limits."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

import typer
from rich.text import Text
from rich.tree import Tree

from circadia.cli.agents.coordination import settings_of
from circadia.cli.arguments import Limit, Session, full_reference
from circadia.cli.connection import RemoteServer, gather_pages
from circadia.cli.terminal.groups import NounGroup
from circadia.cli.terminal.output import (
    Listing,
    Output,
    console,
    display_text,
    dollars,
    list_output,
    local_time,
    note,
    shorten,
    table,
)
from circadia.client import Client
from circadia.errors import InvalidRequest, NotFound
from circadia.ids import AgentId, MessageId, PulseId, WakeId
from circadia.records.coordination import DEFAULT, Coordination, build_coordination
from circadia.records.principal import OPERATOR
from circadia.records.wake import Decision, GuardrailCheck, Wake, WakeReason, WakeSource
from circadia.schemas.fleet import UsageLine
from circadia.schemas.wakes import (
    Chain,
    ChainNode,
    MessageWakeList,
    MessageWakeView,
    WakeDetail,
    WakeOutcome,
    WakePairCounts,
    WakeView,
)
from circadia.wake.admission import replay as replaying

app = typer.Typer(cls=NounGroup)

EARLIER: Final = timedelta(days=2)
"""Time before the first replayed request whose requests complete its counts."""
AT_ONCE: Final = 8

MAX_MATRIX_TARGETS = 12
"""Maximum number of targets in a matrix; more are printed as a list."""
_DETAIL_LETTERS = 80
_COLOURS = {
    "admitted": "green", "coalesced": "green", "succeeded": "green", "running": "cyan", "deferred": "yellow",
    "refused": "red", "expired": "red", "failed": "red", "timed_out": "red",
}  # fmt: skip

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
) -> Output:
    """List wake requests with their decision and its reason, newest first."""
    target, asker = (None if name is None else full_reference(name, session) for name in (agent, sender))
    page = server.list_pages(
        lambda client, place, count: client.list_wakes(
            agent=target, sender=asker, decision=decision and decision.value, since=since, before=place, limit=count
        ),
        "wakes",
        limit=limit,
    )
    columns = ("wake", "asked", "agent", "from", "for", "decision", "why")
    return list_output(page, page.wakes, columns, _row, nothing="no wake", more=page.before is not None)


@app.command(epilog="Example: circadia wakes explain wak_0cwd4f7k2m")
def explain(
    server: RemoteServer,
    wake: Annotated[str, typer.Argument(metavar="WAKE", help="Wake request ID, or that of a message.")],
) -> Output:
    """Show the decision on a wake request and the result of each guardrail, or why a message woke whom or not."""
    if wake.startswith("msg_"):
        return _explain_message(server.ask(lambda client: client.explain_message_wakes(wake)))
    details = server.ask(lambda client: client.show_wake(wake))
    why = ": ".join(part for part in (details.rule, details.detail) if part)
    request = f"{details.sender} asked to wake {details.agent} for {details.reason}"
    return _trace_output(details, f"{request}: {details.decision}" + (f" ({why})" if why else ""))


def _explain_message(answer: MessageWakeList) -> Output:
    columns = ("agent", "mentioned", "wake", "decision", "why")
    return list_output(answer, answer.recipients, columns, _recipient_row, nothing="no recipient")


def _recipient_row(each: MessageWakeView) -> tuple[object, ...]:
    decision = each.decision or ""
    mentioned = "yes" if each.mentioned else "no"
    return each.agent, mentioned, each.wake, Text(decision, _COLOURS.get(decision, "")), each.why


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
) -> Output:
    """Show what would be decided now, and the result of each guardrail. Writes nothing and wakes nobody."""
    target, asker = full_reference(agent, session), None if sender is None else full_reference(sender, session)
    answer = server.ask(
        lambda client: client.wake_agent(target, reason.value, dry_run=True, sender=asker, override=override)
    )
    return _trace_output(answer, answer.summary)


def _trace_output(document: WakeDetail | WakeOutcome, summary: str) -> Output:
    def show(_: object) -> None:
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

    return Output(document, show)


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
) -> Output:
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
    return Output(_replay_document(outcomes, data), lambda _: _show_replay(outcomes, data))


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayData:
    """The requests with their traces, their targets' current settings, and whether the period is `complete`."""

    wakes: Sequence[Wake]
    coordinations: Mapping[AgentId, Coordination]
    complete: bool


async def fetch_replay_data(client: Client, since: datetime, *, limit: int) -> ReplayData:
    """Return the requests since `since` and those shortly before, with the settings of their targets."""
    start = (since - EARLIER).isoformat()
    page = await gather_pages(
        lambda place, count: client.list_wakes(since=start, before=place, limit=count, trace=True),
        key="wakes",
        limit=limit,
    )
    places = asyncio.Semaphore(AT_ONCE)

    async def fetch_coordination(reference: str) -> Coordination:
        async with places:
            try:
                answer = await client.show_coordination(reference)
            except NotFound:
                return DEFAULT  # it was deleted
            return build_coordination({key: setting.value for key, setting in answer.settings.items()})

    targets = sorted({view.agent for view in page.wakes})
    own = await asyncio.gather(*(fetch_coordination(target) for target in targets))
    return ReplayData(
        wakes=[wake_of(wake) for wake in page.wakes if isinstance(wake, WakeDetail)],
        coordinations={AgentId(name): coordination for name, coordination in zip(targets, own, strict=True)},
        complete=page.before is None,
    )


def wake_of(view: WakeDetail) -> Wake:
    """Return a REST answer as a wake record; references serve as agent ids, which is enough for counting."""
    source = view.source
    by_agent = source in (WakeSource.AGENT, WakeSource.THREAD) and view.sender.partition("/")[0] != OPERATOR
    pulse = view.sender_pulse
    return Wake(
        id=WakeId(view.id),
        at=view.at,
        agent_id=AgentId(view.agent),
        agent=view.agent,
        source=source,
        sender_id=AgentId(view.sender) if by_agent else None,
        sender=view.sender,
        sender_pulse=None if pulse is None else PulseId(pulse),
        reason=view.reason,
        priority=view.priority,
        message_id=None if view.message is None else MessageId(view.message),
        routine=view.routine,
        decision=view.decision,
        rule=view.rule,
        detail=view.detail,
        decided_at=view.decided_at,
        charge=view.charge,
        pulse_id=None if view.pulse is None else PulseId(view.pulse),
        root_id=view.root,
        parent_id=view.parent,
        depth=view.depth,
        overridden_by=view.overridden_by,
        trace=tuple(GuardrailCheck(**dict(check)) for check in view.trace),
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


@app.command(epilog="Example: circadia wakes chain wak_0cwd4f7k2m")
def chain(
    server: RemoteServer,
    root: Annotated[
        str, typer.Argument(metavar="ROOT", help="ID of its first message or wake, or of any wake or pulse.")
    ],
) -> Output:
    """Show a chain of messages, wakes and pulses as a tree, each below its cause."""

    async def fetch_chain(client: Client) -> Chain:
        first = root
        if root.startswith("wak_"):
            first = (await client.show_wake(root)).root
        elif root.startswith("pls_"):
            first = (await client.show_pulse(root)).root
        return await client.show_chain(first)

    return Output(server.ask(fetch_chain), _chain_tree)


def _chain_tree(answer: Chain) -> Tree:
    """Return the nodes of a chain as a tree; nodes without a cause in the chain are at the top."""
    counts = ", ".join(f"{getattr(answer, kind)} {kind}" for kind in ("messages", "wakes", "pulses"))
    title = f"{display_text(answer.root)}: {counts}, depth {answer.depth}, {_format_usage(answer.usage)}"
    top = Tree(Text(title, "bold"))
    branches: dict[str, Tree] = {}
    for node in answer.nodes:
        branches[node.id] = branches.get(node.parent or "", top).add(_node_line(node))
    return top


def _node_line(node: ChainNode) -> Text:
    who = f"{node.by} → {node.agent}" if node.kind == "wake" else node.agent
    return Text.assemble(
        (f"{local_time(node.at)[11:]} ", "dim"),
        (f"{node.kind} ", "bold"),
        f"{display_text(who)} ",
        (f"{node.state} " if node.state else "", _COLOURS.get(node.state, "")),
        shorten(display_text(node.detail), _DETAIL_LETTERS),
        f" ({_format_usage(node.usage)})" if node.usage else "",
        (f"  {node.id}", "dim"),
    )


def _format_usage(line: UsageLine) -> str:
    return f"{line.calls:,} calls, {line.input_tokens + line.output_tokens:,} tokens, {dollars(line.cost_usd)}"


@app.command(epilog="Example: circadia wakes matrix --since 2026-11-01")
def matrix(server: RemoteServer, since: Since = None) -> Output:
    """Show how often each sender asked to wake each target, and how many requests were not granted."""
    pairs = server.ask(lambda client: client.wake_matrix(since=since))

    def show(_: object) -> Listing | None:
        if pairs:
            return matrix_table(pairs)
        note("no wake")
        return None

    return Output({"pairs": pairs}, show)


@app.command(epilog="Example: circadia wakes cancel wak_0cwd4f7k2m")
def cancel(server: RemoteServer, wake: WakeKey) -> Output:
    """Cancel a deferred request. Its message stays in the inbox."""
    cancelled = server.ask(lambda client: client.cancel_wake(wake))
    return Output(cancelled, f"wake {cancelled.id} of {cancelled.agent}: {cancelled.decision}")


def matrix_table(pairs: Sequence[WakePairCounts]) -> Listing:
    """Return a matrix with a row per sender and a column per target, or a list if it would be too wide."""
    targets = sorted({pair.to for pair in pairs})
    if len(targets) > MAX_MATRIX_TARGETS:
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
