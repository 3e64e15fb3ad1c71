"""Direct messages, wake requests and wake statistics of an agent (WAKE-01 … WAKE-06, WAKE-70, WAKE-71)."""

from datetime import timedelta
from typing import Annotated

from fastapi import Header, Query, Response
from pydantic import ConfigDict, Field, StrictBool
from pydantic.alias_generators import to_camel

from circadia.agents.access import require_operator
from circadia.agents.chains import NOWHERE, fetch_place
from circadia.agents.directory import find_own_session
from circadia.api.bodies import Body, Instant, named_agent, own_agent, require_enabled
from circadia.api.context import ApiContext, Context, Limit, Who, fetch_page, noun_router
from circadia.errors import Forbidden, InvalidRequest, NotFound
from circadia.ids import MessageId, WakeId
from circadia.records.agent import Agent, Name
from circadia.records.message import Message, MessageType, Priority
from circadia.records.principal import OPERATOR, Principal
from circadia.records.span import EPOCH
from circadia.records.wake import Decision, Wake, WakeReason, WakeSource
from circadia.schemas.wakes import (
    BudgetsView,
    SendOutcome,
    WakeDetail,
    WakeList,
    WakeMatrix,
    WakeOutcome,
    WakePairCounts,
    WakeStatsView,
    WakeView,
)
from circadia.stores.base import Tx
from circadia.stores.locks import request_key
from circadia.wake.admission.budgets import (
    Budgets,
    WakeStats,
    describe_decision,
    fetch_budgets,
    fetch_wake_stats,
    retry_at,
)
from circadia.wake.inbox import OutgoingMessage
from circadia.wake.wake_rows import NewWake


def message_outcome(target: Agent, message: Message | None, wake: Wake | None, budgets: Budgets) -> SendOutcome:
    return SendOutcome(
        to=target.reference,
        message=None if message is None else message.id,
        wake=None if wake is None else wake.id,
        decision=None if wake is None else wake.decision,
        rule=None if wake is None else wake.rule,
        detail="" if wake is None else wake.detail,
        retry_at=None if wake is None else retry_at(wake, target),
        pulse=None if wake is None else wake.pulse_id,
        root=message.root_id if message is not None else wake.root_id if wake is not None else None,
        budgets=BudgetsView.of(budgets),
        summary=describe_decision(wake, target),
    )


def wake_outcome(target: Agent, message: Message | None, wake: Wake, budgets: Budgets) -> WakeOutcome:
    outcome = message_outcome(target, message, wake, budgets)
    return WakeOutcome.of(outcome, trace=wake.trace, dry_run=False)


def dry_run_outcome(target: Agent, wake: Wake, budgets: Budgets) -> WakeOutcome:
    """Return the expected decision, without request or chain."""
    outcome = message_outcome(target, None, wake, budgets).model_copy(
        update={
            "wake": None,
            "root": None,
            "summary": f"Dry run: {describe_decision(wake, target)} Nothing was written.",
        }
    )
    return WakeOutcome.of(outcome, trace=wake.trace, dry_run=True)


def require_speaker(principal: Principal, sender: str | None) -> None:
    """Raise Forbidden if `from` names anybody but the token's owner (WAKE-04)."""
    own = {OPERATOR if principal.agent is None else principal.agent.name, principal.name}
    if sender is not None and sender not in own:
        raise Forbidden(f"the token is that of {principal.name!r}, not of {sender!r}; leave `from` out")


message_router = noun_router("messages")

Key = Annotated[str | None, Header(alias="Idempotency-Key", description="The same as `key` in the body.")]


class SenderBody(Body):
    """Common keys of requests with a sender."""

    sender: Name | None = Field(None, alias="from", description="Sender; optional, and only the owner of the token.")
    key: str | None = Field(
        None,
        max_length=200,
        description="Idempotency key of the sender: a repeat returns the first result, and a different request with "
        "the same key is a conflict.",
        examples=["deploy-42"],
    )


class DirectMessageBody(SenderBody):
    """A message for an inbox."""

    to: Name = Field(
        description="Recipient: `name` in the sender's session (the operator's is `default`), or `session:name`.",
        examples=["writer"],
    )
    content: str = Field(description="Text.", examples=["the notes for 7.1 can start"])
    priority: Priority = Field(Priority.NORMAL, description="Priority; `high` and `urgent` request a wake.")
    type: MessageType = Field(MessageType.INFO, description="Purpose.")
    wake: WakeReason | None = Field(None, description="Reason for waking the recipient now.")
    reply_to: Name | None = Field(None, description="Id of the message that it answers.")


def resolve_idempotency_key(in_body: str | None, in_header: str | None) -> str | None:
    """Return the idempotency key.

    Raises:
        InvalidRequest: body and header differ.
    """
    if in_body is not None and in_header is not None and in_body != in_header:
        raise InvalidRequest("`key` and the header Idempotency-Key differ; send one of them")
    return in_header if in_body is None else in_body


@message_router.post("/messages", status_code=201)
async def send_direct(body: DirectMessageBody, who: Who, context: Context, idempotency_key: Key = None) -> SendOutcome:
    """Put a message into an agent's inbox, and request a wake if it has a reason or a high priority.

    The server stores the message whatever the decision on the wake. Access: the operator, and agents to agents that
    they may address.
    """
    require_speaker(who, body.sender)
    message = OutgoingMessage(
        to=body.to,
        content=body.content,
        type=body.type,
        priority=body.priority,
        wake=body.wake,
        reply_to=None if body.reply_to is None else MessageId(body.reply_to),
        key=resolve_idempotency_key(body.key, idempotency_key),
    )
    async with context.store.begin_write() as tx:
        sent = await context.wake.inbox.send(tx, who, await find_own_session(tx, who), message)
        budgets = await fetch_budgets(
            tx, sent.to, context.clock.now(), sender=who.agent, place=sent.place, counts=sent.counts
        )  # fmt: skip
    return message_outcome(sent.to, sent.message, sent.wake, budgets)


router = noun_router("wakes")


class WakeBody(SenderBody):
    """A request to wake an agent."""

    to: Name = Field(
        description="Recipient: `name` in the sender's session (the operator's is `default`), or `session:name`.",
        examples=["writer"],
    )
    reason: WakeReason = Field(description="Reason for waking the agent now.")
    message: str | None = Field(
        None,
        description="Task for the recipient, delivered to the inbox whatever the decision. Required for agents.",
        examples=["the build of 7.1 is red"],
    )
    override: str | None = Field(
        None,
        min_length=1,
        max_length=500,
        description="The operator's reason for bypassing the guardrails; it is recorded. In a dry run, omit `from`.",
    )
    dry_run: StrictBool = Field(False, description="Only report the decision; write nothing.")


@router.post(
    "/wakes", status_code=201, responses={200: {"model": WakeOutcome, "description": "The result of a dry run."}}
)
async def wake_agent(
    body: WakeBody, response: Response, who: Who, context: Context, idempotency_key: Key = None
) -> WakeOutcome:
    """Request a wake; with `dry_run`, only report the result of all guardrails, with 200.

    A refused or deferred request is a normal answer, not an error: its message is in the inbox. Access: the operator,
    and agents for agents that they may address. In a dry run the operator may set `from` to any agent.
    """
    _require_override(body, who)
    if body.dry_run:
        response.status_code = 200
        return await _explain_wake(body, who, context)
    require_speaker(who, body.sender)
    key = resolve_idempotency_key(body.key, idempotency_key)
    if body.message is None:
        return await _without_message(body, who, context, key)
    message = OutgoingMessage(to=body.to, content=body.message, wake=body.reason, key=key, override=body.override)
    async with context.store.begin_write() as tx:
        sent = await context.wake.inbox.send(tx, who, await find_own_session(tx, who), message)
        assert sent.wake is not None
        budgets = await fetch_budgets(
            tx, sent.to, context.clock.now(), sender=who.agent, place=sent.place, counts=sent.counts
        )  # fmt: skip
    return wake_outcome(sent.to, sent.message, sent.wake, budgets)


async def _without_message(body: WakeBody, who: Principal, context: ApiContext, key: str | None) -> WakeOutcome:
    """Wake on behalf of a person who gives only a reason."""
    if not who.is_operator:
        raise InvalidRequest("`message` is missing; say what the agent is to do")
    stored_key = None if key is None else f"{who.name} {key}"
    async with context.store.begin_write(*([] if stored_key is None else [request_key(stored_key)])) as tx:
        target = await named_agent(tx, who, body.to)
        require_enabled(target)
        wake, counts = await context.wake.requests.request(
            tx,
            NewWake(
                target=target,
                source=WakeSource.PERSON,
                by=who.name,
                reason=body.reason.value,
                key=stored_key,
                overridden_by=_overridden_by(body, who),
            ),
        )
        budgets = await fetch_budgets(tx, target, context.clock.now(), sender=None, place=NOWHERE, counts=counts)
    return wake_outcome(target, None, wake, budgets)


def _require_override(body: WakeBody, who: Principal) -> None:
    if body.override is not None and not who.is_operator:
        raise Forbidden("only the operator lets a wake pass its guardrails; leave `override` out")


def _overridden_by(body: WakeBody, who: Principal) -> str | None:
    return None if body.override is None else f"{who.name}: {body.override}"


async def _explain_wake(body: WakeBody, who: Principal, context: ApiContext) -> WakeOutcome:
    async with context.store.begin_read() as tx:
        as_whom = who
        if who.is_operator and body.sender not in (None, OPERATOR, who.name):
            as_whom = Principal(agent=await named_agent(tx, who, body.sender or ""))
        else:
            require_speaker(who, body.sender)
        _require_override(body, as_whom)
        target = await named_agent(tx, who, body.to)
        require_enabled(target)
        if as_whom.agent is not None and as_whom.agent.id == target.id:
            raise InvalidRequest(f"{target.reference!r} may not wake itself")
        place = await fetch_place(tx, as_whom)
        ask = NewWake(
            target=target,
            source=WakeSource.PERSON if as_whom.is_operator else WakeSource.AGENT,
            sender=as_whom.agent,
            by=as_whom.name,
            reason=body.reason.value,
            priority=Priority.URGENT,
            place=place,
            overridden_by=_overridden_by(body, as_whom),
        )
        wake = await context.wake.requests.explain(tx, ask)
        budgets = await fetch_budgets(tx, target, context.clock.now(), sender=as_whom.agent, place=place)
    return dry_run_outcome(target, wake, budgets)


@router.get("/wakes")
async def list_wakes(
    who: Who,
    context: Context,
    agent: Annotated[str | None, Query(description="Only for this target.")] = None,
    sender: Annotated[str | None, Query(description="Only from this sender.")] = None,
    decision: Annotated[Decision | None, Query(description="Only with this decision.")] = None,
    since: Annotated[Instant, Query(description="Requested at or after this date or time.")] = None,
    until: Annotated[Instant, Query(description="Requested before this date or time.")] = None,
    before: Annotated[str | None, Query(description="Id of the last wake on the previous page.")] = None,
    limit: Limit = 100,
    trace: Annotated[bool, Query(description="Include the guardrail checks.")] = False,
) -> WakeList:
    """List wake requests. An agent sees those with itself as target or, with `sender`, as sender."""
    async with context.store.begin_read() as tx:
        target, asker = await _resolve_filters(tx, who, agent, sender)
        if before is not None and await tx.wakes.get(WakeId(before)) is None:
            raise InvalidRequest(f"no wake {before!r}; `before` is that of the page before")
        wakes, more = await fetch_page(
            lambda last, most: tx.wakes.find_all(
                agent_id=None if target is None else target.id,
                sender_id=None if asker is None else asker.id,
                decision=decision,
                since=since,
                until=until,
                before=last.id if last is not None else None if before is None else WakeId(before),
                limit=most,
            ),
            limit,
        )
    view = WakeDetail if trace else WakeView
    return WakeList(wakes=[view.of(wake) for wake in wakes], before=wakes[-1].id if more else None)


async def _resolve_filters(
    tx: Tx, who: Principal, agent: str | None, sender: str | None
) -> tuple[Agent | None, Agent | None]:
    """Return the target and sender to filter by; an agent must be one of them."""
    target = None if agent is None else await named_agent(tx, who, agent)
    asker = None if sender is None else await named_agent(tx, who, sender)
    own = who.agent
    if own is not None and own.id not in [known_agent.id for known_agent in (target, asker) if known_agent is not None]:
        if target is not None or asker is not None:
            raise Forbidden(f"{who.name!r} sees wakes of which it is the target or the sender only")
        target = own
    return target, asker


@router.get("/wakes/matrix")
async def wake_matrix(
    who: Who,
    context: Context,
    since: Annotated[
        Instant, Query(description="Requested at or after this date or time; by default in the last 24 hours.")
    ] = None,
    until: Annotated[Instant, Query(description="Requested before this date or time.")] = None,
) -> WakeMatrix:
    """Count wake requests by sender, target and decision. Operator only."""
    require_operator(who)
    since = since or max(until or context.clock.now(), EPOCH) - timedelta(days=1)
    async with context.store.begin_read() as tx:
        counts = await tx.wakes.count_by_pair(since=since, until=until)
    pairs: dict[tuple[str, str], dict[Decision, int]] = {}
    for pair_count in counts:
        pairs.setdefault((pair_count.sender, pair_count.agent), {})[pair_count.decision] = pair_count.count
    return WakeMatrix(
        pairs=[
            WakePairCounts(sender=sender, to=to, decisions=decisions, total=sum(decisions.values()))
            for (sender, to), decisions in pairs.items()
        ]
    )


@router.get("/wakes/{wake}")
async def show_wake(wake: str, who: Who, context: Context) -> WakeDetail:
    """Show a wake request with its guardrail checks. Access: operator, target, sender."""
    async with context.store.begin_read() as tx:
        return WakeDetail.of(await _wake(tx, who, wake))


@router.post("/wakes/{wake}/cancel")
async def cancel_wake(wake: str, who: Who, context: Context) -> WakeView:
    """Cancel a deferred request; its message stays in the inbox. Access: operator, its sender."""
    async with context.store.begin_write() as tx:
        found_wake = await _wake(tx, who, wake)
        if not who.is_operator and (who.agent is None or who.agent.id != found_wake.sender_id):
            raise Forbidden(f"{who.name!r} has not asked for this wake; its sender and the operator take it back")
        target = await tx.agents.get(found_wake.agent_id)
        assert target is not None
        return WakeView.of(await context.wake.requests.cancel(tx, found_wake, target, by=who.name))


async def _wake(tx: Tx, who: Principal, wake_id: str) -> Wake:
    """Return the request.

    Raises:
        NotFound: there is none. Forbidden: the principal is neither its target nor its sender.
    """
    wake = await tx.wakes.get(WakeId(wake_id))
    own = who.agent
    if wake is not None and own is not None and own.id not in (wake.agent_id, wake.sender_id):
        raise Forbidden(f"wake {wake_id!r} is between others; use the operator's token")
    if wake is None:
        raise NotFound(f"no wake {wake_id!r}; `circadia wakes` lists them")
    return wake


stats_router = noun_router("wake-stats")
djinnbot_router = noun_router("wake-stats", prefix="")


@stats_router.get("/agents/{agent}/wake-stats", operation_id="wake_stats")
async def show_wake_stats(agent: str, who: Who, context: Context) -> WakeStatsView:
    """Show an agent's wakes in its current day. Access: operator, the agent."""
    async with context.store.begin_read() as tx:
        found_agent = await own_agent(tx, who, agent)
        return _stats_view(found_agent.reference, await fetch_wake_stats(tx, found_agent, context.clock.now()))


def _stats_view(reference: str, stats: WakeStats) -> WakeStatsView:
    limits = stats.limits
    return WakeStatsView.of(
        stats,
        agent=reference,
        max_wakes_per_day=limits.max_wakes_per_day,
        cooldown_seconds=limits.cooldown_seconds,
        last_wake_time=None if stats.last_wake_at is None else int(stats.last_wake_at.timestamp() * 1000),
        max_daily_session_minutes=limits.max_daily_session_minutes,
    )


class WakeStatsInCamelCase(WakeStatsView):
    """The wake statistics in camelCase."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


@djinnbot_router.get("/v1/agents/{agent}/wake-stats", include_in_schema=False)
async def show_wake_stats_bare(agent: str, who: Who, context: Context) -> WakeStatsInCamelCase:
    """Show the same in camelCase, at DjinnBot's path (WAKE-70). Access: operator, the agent."""
    return WakeStatsInCamelCase(**dict(await show_wake_stats(agent, who, context)))
