"""Why an agent sleeps or is awake, why a message woke it or did not, and agents that wake each other (UI-18)."""

from typing import Annotated

from fastapi import Query

from circadia.agents.access import require_operator
from circadia.api.bodies import Instant, named_agent, own_agent
from circadia.api.context import Context, Who, noun_router
from circadia.errors import NotFound
from circadia.ids import MessageId
from circadia.schemas.wakes import AgentReasonView, MessageWakeList, MessageWakeView, WakeCircleList, WakeCircleView
from circadia.wake.explanations import explain_message, fetch_state_reason, find_circles
from circadia.wake.sleep_control import list_wakers

router = noun_router("wakes")


@router.get("/agents/{agent}/why")
async def explain_agent(agent: str, who: Who, context: Context) -> AgentReasonView:
    """Say why an agent sleeps or is awake, since when, and what wakes it. Access: operator, the agent."""
    async with context.store.begin_read() as tx:
        row = await own_agent(tx, who, agent)
        reason = await fetch_state_reason(tx, row)
        return AgentReasonView.of(
            row, agent=row.reference, because=reason.because, wake=reason.wake, message=reason.message,
            wakers=list(await list_wakers(tx, row)),
        )  # fmt: skip


@router.get("/messages/{message}/wakes")
async def explain_message_wakes(message: str, who: Who, context: Context) -> MessageWakeList:
    """Say for each recipient of a message, mentioned or not, why it was woken or was not. Operator only."""
    require_operator(who)
    async with context.store.begin_read() as tx:
        row = await tx.messages.get(MessageId(message))
        if row is None:
            raise NotFound(f"no message {message!r}; `circadia inbox AGENT` lists those of an agent")
        explained = await explain_message(tx, row)
    views = [
        MessageWakeView.of(
            each, wake=None if each.wake is None else each.wake.id,
            decision=None if each.wake is None else each.wake.decision,
            rule=None if each.wake is None else each.wake.rule,
        )
        for each in explained
    ]  # fmt: skip
    return MessageWakeList(message=row.id, sender=row.sender, recipients=views)


@router.get("/wake-circles")
async def list_wake_circles(
    who: Who,
    context: Context,
    agent: Annotated[str | None, Query(description="Only circles with this agent.")] = None,
    since: Annotated[Instant, Query(description="Wakes requested since then; by default this UTC day.")] = None,
) -> WakeCircleList:
    """List agents that wake each other, directly or over others, with their wakes and the limit that stops them.

    Operator only.
    """
    require_operator(who)
    start = since or context.clock.now().replace(hour=0, minute=0, second=0, microsecond=0)
    async with context.store.begin_read() as tx:
        only = None if agent is None else (await named_agent(tx, who, agent)).reference
        circles = await find_circles(tx, start)
    return WakeCircleList(
        circles=[WakeCircleView.of(circle) for circle in circles if only is None or only in circle.agents]
    )
