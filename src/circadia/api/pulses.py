"""Pulses, the bounded runs of agents, and chains, the trees of wakes, pulses and messages (WAKE-60, WAKE-71)."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Literal

from fastapi import Query
from pydantic import Field, StrictFloat, StrictInt

from circadia.agents.access import require_operator
from circadia.agents.chains import NOWHERE
from circadia.api.bodies import Body, Instant, named_agent, own_agent, require_enabled
from circadia.api.context import ApiContext, Context, Limit, Who, fetch_page, noun_router
from circadia.api.fleet import usage_line
from circadia.api.wakes import wake_outcome
from circadia.errors import Conflict, Forbidden, InvalidRequest, NotFound
from circadia.ids import PulseId
from circadia.output_tail import redact_tokens
from circadia.records.call import UsageGroup
from circadia.records.message import Message
from circadia.records.principal import Principal
from circadia.records.pulse import PULSE_MOVES, Pulse, PulseStatus
from circadia.records.schedule import MAX_TIMEOUT_SECONDS, MIN_TIMEOUT_SECONDS
from circadia.records.wake import Wake, WakeSource
from circadia.schemas.wakes import Chain, ChainNode, PulseList, PulseView, WakeOutcome
from circadia.settings.launchers import WebhookLauncherSettings
from circadia.stores.base import Tx
from circadia.wake.admission.budgets import fetch_budgets
from circadia.wake.launchers.base import LaunchResult
from circadia.wake.pulse_lifecycle import total_run_seconds
from circadia.wake.wake_rows import NewWake

router = noun_router("pulses")


class StartBody(Body):
    """A pulse to start by hand."""

    reason: str = Field(
        "manual",
        min_length=1,
        max_length=200,
        description="Reason, shown in the prompt and in the record.",
        examples=["try"],
    )
    timeout_seconds: StrictFloat | StrictInt | None = Field(
        None, ge=MIN_TIMEOUT_SECONDS, le=MAX_TIMEOUT_SECONDS, description="Longest run; by default the agent's limit."
    )
    override: str | None = Field(
        None, min_length=1, max_length=500, description="Reason for bypassing the guardrails; it is recorded."
    )


class EndBody(Body):
    """The end of a remote run."""

    bears_nul = True
    status: Literal["succeeded", "failed", "suspended"] = Field(
        description="Result of the run; `suspended` if its launcher `resumes`: the agent's next wake goes on with it."
    )
    detail: str = Field("", max_length=4000, description="Details for people; must not contain secrets.")
    epoch: StrictInt | None = Field(
        None, ge=0, description="`epoch` from the start request; the server rejects a report of an earlier one."
    )


@router.get("/agents/{agent}/pulses")
async def list_pulses(
    agent: str,
    who: Who,
    context: Context,
    status: Annotated[PulseStatus | None, Query(description="Only with this status.")] = None,
    since: Annotated[Instant, Query(description="Only pulses admitted at or after this date or time.")] = None,
    before: Annotated[str | None, Query(description="Id of the last pulse on the previous page.")] = None,
    limit: Limit = 100,
) -> PulseList:
    """List an agent's pulses. Access: operator, the agent."""
    async with context.store.begin_read() as tx:
        found_agent = await own_agent(tx, who, agent)
        last = None if before is None else PulseId(before)
        if last is not None and await tx.pulses.get(last) is None:
            raise InvalidRequest(f"no pulse {before!r}; `before` is that of the page before")
        pulses, more = await fetch_page(
            lambda row, most: tx.pulses.find_all(
                agent_id=found_agent.id, status=status, since=since, before=last if row is None else row.id, limit=most
            ),
            limit,
        )
    return PulseList(
        pulses=[pulse_view(pulse, context.clock.now()) for pulse in pulses], before=pulses[-1].id if more else None
    )


@router.post("/agents/{agent}/pulses", status_code=201)
async def start_pulse(agent: str, who: Who, context: Context, body: StartBody | None = None) -> WakeOutcome:
    """Start a pulse by hand: a wake request from a person that passes the guardrails as usual. Operator only."""
    require_operator(who)
    request = body or StartBody.model_validate({})
    async with context.store.begin_write() as tx:
        target = await named_agent(tx, who, agent)
        require_enabled(target)
        ask = NewWake(
            target=target,
            source=WakeSource.PERSON,
            by=who.name,
            reason=request.reason,
            timeout_seconds=None if request.timeout_seconds is None else float(request.timeout_seconds),
            overridden_by=None if request.override is None else f"{who.name}: {request.override}",
        )
        wake, counts = await context.wake.requests.request(tx, ask)
        budgets = await fetch_budgets(tx, target, context.clock.now(), sender=None, place=NOWHERE, counts=counts)
    return wake_outcome(target, None, wake, budgets)


@router.get("/pulses/{pulse}")
async def show_pulse(pulse: str, who: Who, context: Context) -> PulseView:
    """Show a pulse. Access: operator, its agent."""
    async with context.store.begin_read() as tx:
        return pulse_view(await _pulse(tx, who, pulse), context.clock.now())


@router.post("/pulses/{pulse}/cancel")
async def cancel_pulse(pulse: str, who: Who, context: Context) -> PulseView:
    """Stop a pulse; the messages in its prompt become unread again. Operator only."""
    require_operator(who)
    async with context.store.begin_write() as tx:
        await context.wake.pulses.hold_agents(tx, PulseId(pulse))
        found_pulse = await context.wake.pulses.cancel(tx, await _pulse(tx, who, pulse), by=who.name)
    return pulse_view(found_pulse, context.clock.now())


@router.post("/pulses/{pulse}/end", status_code=202)
async def end_pulse(pulse: str, body: EndBody, who: Who, context: Context) -> PulseView:
    """Report the end of a run that a webhook started and that was answered with 202.

    The server answers after the end is on disk. Access: the operator, and whoever has the token of the run.
    """
    suspended = body.status == "suspended"
    detail = redact_tokens(body.detail)
    ended = LaunchResult(succeeded=body.status != "failed", suspended=suspended, detail=detail)
    async with context.store.begin_write() as tx:
        await context.wake.pulses.hold_agents(tx, PulseId(pulse))
        found_pulse = await _pulse(tx, who, pulse)
        _require_reportable(context, who, found_pulse, body)
        reported = await context.wake.pulses.report(tx, found_pulse, ended)
        tx.after_commit(lambda: context.wake.reports.deliver_report(found_pulse.id, found_pulse.epoch, ended))
    return pulse_view(reported, context.clock.now())


def _require_reportable(context: ApiContext, who: Principal, pulse: Pulse, body: EndBody) -> None:
    """Reject a report that is not about the pulse's current run, not from its token, or of what cannot be resumed."""
    if not who.is_operator and who.pulse_id != pulse.id:
        raise Forbidden(f"the end of pulse {pulse.id!r} is reported with the token that it was started with")
    if not PULSE_MOVES[pulse.status]:
        raise Conflict(f"pulse {pulse.id!r} is {pulse.status.value} already")
    launcher = context.settings.launchers.get(pulse.launcher)
    if not isinstance(launcher, WebhookLauncherSettings):
        raise Conflict(f"pulse {pulse.id!r} ends with its program; only runs that a webhook started are reported")
    if body.status == "suspended" and not launcher.resumes:
        raise Conflict(f"launcher {pulse.launcher!r} does not resume runs; set `resumes: true` for it")
    if pulse.owner is None or body.epoch not in (None, pulse.epoch):
        raise Conflict(f"this run of pulse {pulse.id!r} is not the present one, which has epoch {pulse.epoch}")


def pulse_view(pulse: Pulse, now: datetime) -> PulseView:
    return PulseView.of(pulse, run_seconds=round(total_run_seconds(pulse, now), 3))


async def _pulse(tx: Tx, who: Principal, pulse_id: str) -> Pulse:
    """Return the pulse.

    Raises:
        NotFound: there is none. Forbidden: it belongs to another agent.
    """
    pulse = await tx.pulses.get(PulseId(pulse_id))
    if pulse is None:
        raise NotFound(f"no pulse {pulse_id!r}; `circadia pulses` lists them")
    if not who.is_operator and (who.agent is None or who.agent.id != pulse.agent_id):
        raise Forbidden(f"pulse {pulse_id!r} is that of {pulse.agent!r}; use its token, or the operator's")
    return pulse


chain_router = noun_router("chains")

_TEXT = 500


@chain_router.get("/chains/{root}")
async def show_chain(root: str, who: Who, context: Context) -> Chain:
    """Show a chain as a tree. Operator only."""
    require_operator(who)
    async with context.store.begin_read() as tx:
        wakes = await tx.wakes.find_by_root(root)
        pulses = await tx.pulses.find_by_root(root)
        messages = await tx.messages.find_by_root(root)
        usage = await tx.calls.sum_by_pulse(root)
    if not wakes and not pulses and not messages:
        raise NotFound(f"no chain {root!r}; take the `root` of a wake, a pulse or a message")
    depths = [link.depth for link in (*wakes, *pulses, *messages)]
    return Chain(
        root=root,
        wakes=len(wakes),
        pulses=len(pulses),
        messages=len(messages),
        depth=max(depths),
        usage=usage_line(list(usage.values())),
        nodes=_nodes(wakes, pulses, messages, usage),
    )


def _nodes(
    wakes: Sequence[Wake], pulses: Sequence[Pulse], messages: Sequence[Message], usage: Mapping[PulseId, UsageGroup]
) -> list[ChainNode]:
    """Return the tree in reading order; without recursion, since a chain may be long."""
    # What an agent did in a pulse refers to its wake; put the pulse in between.
    opened: Mapping[str, str] = {pulse.wake_id: pulse.id for pulse in pulses if pulse.wake_id is not None}
    known = {link.id for link in (*wakes, *pulses, *messages)}

    def cause(*candidates: str | None) -> str | None:
        return next((candidate for candidate in candidates if candidate in known), None)

    nodes = [
        *(
            _message_node(message, cause(opened.get(message.parent_id or ""), message.parent_id))
            for message in messages
        ),
        *(
            _wake_node(
                wake, cause(wake.message_id, wake.sender_pulse, opened.get(wake.parent_id or ""), wake.parent_id)
            )
            for wake in wakes
        ),
        *(_pulse_node(pulse, cause(pulse.wake_id), usage.get(pulse.id)) for pulse in pulses),
    ]
    below: dict[str | None, list[ChainNode]] = {}
    for node in sorted(nodes, key=lambda node: (node.at, _ORDER[node.kind], node.id), reverse=True):
        below.setdefault(node.parent, []).append(node)
    ordered: list[ChainNode] = []
    waiting = below.pop(None, [])
    while waiting:
        node = waiting.pop()
        ordered.append(node)
        waiting.extend(below.pop(node.id, []))
    return ordered


_ORDER: Mapping[str, int] = {"message": 0, "wake": 1, "pulse": 2}


def _message_node(message: Message, parent: str | None) -> ChainNode:
    text = message.content if len(message.content) <= _TEXT else f"{message.content[:_TEXT]}…"
    return ChainNode(
        kind="message", id=message.id, at=message.at, agent=message.sender, by=message.sender, state="", detail=text,
        depth=message.depth, parent=parent,
    )  # fmt: skip


def _wake_node(wake: Wake, parent: str | None) -> ChainNode:
    detail = f"{wake.reason}: {wake.detail}" if wake.detail else wake.reason
    return ChainNode(
        kind="wake", id=wake.id, at=wake.at, agent=wake.agent, by=wake.sender, state=wake.decision.value,
        detail=detail, depth=wake.depth, parent=parent,
    )  # fmt: skip


def _pulse_node(pulse: Pulse, parent: str | None, usage: UsageGroup | None) -> ChainNode:
    return ChainNode(
        kind="pulse", id=pulse.id, at=pulse.created_at, agent=pulse.agent, by=pulse.by, state=pulse.status.value,
        detail=pulse.detail, depth=pulse.depth, parent=parent, ended_at=pulse.ended_at,
        usage=usage and usage_line([usage]),
    )  # fmt: skip
