"""Wake requests: create, dry-run, list, explain, cancel, and count by pair (WAKE-71)."""

from typing import Annotated

from fastapi import Query, Response
from pydantic import Field, StrictBool

from circadia.agents.access import require_operator
from circadia.agents.chains import NOWHERE, fetch_place
from circadia.agents.directory import find_own_session
from circadia.api.pages import fetch_page
from circadia.api.parts import ApiParts, Parts, Who, noun_router
from circadia.api.references import Instant, named_agent, require_enabled
from circadia.api.waking.direct_messages import Key, SenderBody, resolve_idempotency_key
from circadia.api.waking.wake_views import dry_run_outcome, require_speaker, wake_outcome
from circadia.errors import Forbidden, InvalidRequest, NotFound
from circadia.ids import WakeId
from circadia.records.agent import Agent, Name
from circadia.records.message import Priority
from circadia.records.principal import OPERATOR, Principal
from circadia.records.wake import Decision, Wake, WakeReason, WakeSource
from circadia.schemas.wakes import WakeDetail, WakeList, WakeMatrix, WakeOutcome, WakePairCounts, WakeView
from circadia.stores.base import Tx
from circadia.stores.locks import request_key
from circadia.wake.admission.budgets import fetch_budgets
from circadia.wake.inbox import OutgoingMessage
from circadia.wake.wake_rows import NewWake

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
    body: WakeBody, response: Response, who: Who, parts: Parts, idempotency_key: Key = None
) -> WakeOutcome:
    """Request a wake; with `dry_run`, only report the result of all guardrails, with 200.

    A refused or deferred request is a normal answer, not an error: its message is in the inbox. Access: the operator,
    and agents for agents that they may address. In a dry run the operator may set `from` to any agent.
    """
    _require_override(body, who)
    if body.dry_run:
        response.status_code = 200
        return await _explain_wake(body, who, parts)
    require_speaker(who, body.sender)
    key = resolve_idempotency_key(body.key, idempotency_key)
    if body.message is None:
        return await _without_message(body, who, parts, key)
    letter = OutgoingMessage(to=body.to, content=body.message, wake=body.reason, key=key, override=body.override)
    async with parts.store.begin_write() as tx:
        sent = await parts.wake.inbox.send(tx, who, await find_own_session(tx, who), letter)
        assert sent.wake is not None
        budgets = await fetch_budgets(
            tx, sent.to, parts.clock.now(), sender=who.agent, place=sent.place, counts=sent.counts
        )  # fmt: skip
    return wake_outcome(sent.to, sent.message, sent.wake, budgets)


async def _without_message(body: WakeBody, who: Principal, parts: ApiParts, key: str | None) -> WakeOutcome:
    """Wake on behalf of a person who gives only a reason."""
    if not who.is_operator:
        raise InvalidRequest("`message` is missing; say what the agent is to do")
    stored_key = None if key is None else f"{who.name} {key}"
    async with parts.store.begin_write(*([] if stored_key is None else [request_key(stored_key)])) as tx:
        target = await named_agent(tx, who, body.to)
        require_enabled(target)
        wake, counts = await parts.wake.requests.request(
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
        budgets = await fetch_budgets(tx, target, parts.clock.now(), sender=None, place=NOWHERE, counts=counts)
    return wake_outcome(target, None, wake, budgets)


def _require_override(body: WakeBody, who: Principal) -> None:
    if body.override is not None and not who.is_operator:
        raise Forbidden("only the operator lets a wake pass its guardrails; leave `override` out")


def _overridden_by(body: WakeBody, who: Principal) -> str | None:
    return None if body.override is None else f"{who.name}: {body.override}"


async def _explain_wake(body: WakeBody, who: Principal, parts: ApiParts) -> WakeOutcome:
    async with parts.store.begin_read() as tx:
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
        wake = await parts.wake.requests.explain(tx, ask)
        budgets = await fetch_budgets(tx, target, parts.clock.now(), sender=as_whom.agent, place=place)
    return dry_run_outcome(target, wake, budgets)


@router.get("/wakes")
async def list_wakes(
    who: Who,
    parts: Parts,
    agent: Annotated[str | None, Query(description="Only for this target.")] = None,
    sender: Annotated[str | None, Query(description="Only from this sender.")] = None,
    decision: Annotated[Decision | None, Query(description="Only with this decision.")] = None,
    since: Annotated[Instant, Query(description="Requested at or after this date or time.")] = None,
    until: Annotated[Instant, Query(description="Requested before this date or time.")] = None,
    before: Annotated[str | None, Query(description="Id of the last wake on the previous page.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="Maximum number of rows.")] = 100,
    trace: Annotated[bool, Query(description="Include the guardrail checks.")] = False,
) -> WakeList:
    """List wake requests. An agent sees those with itself as target or, with `sender`, as sender."""
    async with parts.store.begin_read() as tx:
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
    parts: Parts,
    since: Annotated[Instant, Query(description="Requested at or after this date or time.")] = None,
    until: Annotated[Instant, Query(description="Requested before this date or time.")] = None,
) -> WakeMatrix:
    """Count wake requests by sender, target and decision. Operator only."""
    require_operator(who)
    async with parts.store.begin_read() as tx:
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
async def show_wake(wake: str, who: Who, parts: Parts) -> WakeDetail:
    """Show a wake request with its guardrail checks. Access: operator, target, sender."""
    async with parts.store.begin_read() as tx:
        return WakeDetail.of(await _wake(tx, who, wake))


@router.post("/wakes/{wake}/cancel")
async def cancel_wake(wake: str, who: Who, parts: Parts) -> WakeView:
    """Cancel a deferred request; its message stays in the inbox. Access: operator, its sender."""
    async with parts.store.begin_write() as tx:
        found_wake = await _wake(tx, who, wake)
        if not who.is_operator and (who.agent is None or who.agent.id != found_wake.sender_id):
            raise Forbidden(f"{who.name!r} has not asked for this wake; its sender and the operator take it back")
        target = await tx.agents.get(found_wake.agent_id)
        assert target is not None
        return WakeView.of(await parts.wake.requests.cancel(tx, found_wake, target, by=who.name))


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
        raise NotFound(f"no wake {wake_id!r}")
    return wake
