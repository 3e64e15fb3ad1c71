"""An agent's inbox, the status of its sent messages, and what nobody has handled in any inbox (WAKE-30 … WAKE-34)."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import Field, StrictFloat, StrictInt

from circadia.agents.access import require_operator
from circadia.api.bodies import Body
from circadia.api.context import Context, Who, noun_router
from circadia.api.pages import FIRST_ROWS, count_next, fetch_page
from circadia.api.references import own_agent
from circadia.errors import InvalidRequest
from circadia.ids import AgentId, MessageId
from circadia.records.message import Delivery, DeliveryState
from circadia.records.principal import Principal
from circadia.schemas.inbox import (
    AckResult,
    InboxItem,
    InboxPage,
    RequeueResult,
    SentItem,
    SentPage,
    SnoozeResult,
    UnhandledMessage,
    UnhandledPage,
)
from circadia.stores.base import Tx
from circadia.wake.inbox import MAX_SNOOZE_SECONDS, delivery_status

router = noun_router("inbox")


class SnoozeBody(Body):
    """The time to snooze a message."""

    seconds: StrictFloat | StrictInt = Field(
        gt=0,
        le=MAX_SNOOZE_SECONDS,
        description="Seconds until it is unread again; more than 0, at most 30 days.",
        examples=[3600],
    )


@router.get("/agents/{agent}/inbox")
async def show_inbox(
    agent: str,
    who: Who,
    context: Context,
    state: Annotated[
        list[DeliveryState] | None,
        Query(description="Only messages in this state; may be repeated; by default `unread`."),
    ] = None,
    q: Annotated[str | None, Query(max_length=1000, description="Words in the text, or their beginnings.")] = None,
    order: Annotated[Literal["urgent", "oldest"], Query(description="`urgent` first, or `oldest` first.")] = "urgent",
    after: Annotated[str | None, Query(description="Id of the last message on the previous page.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="Maximum number of rows.")] = 50,
) -> InboxPage:
    """List an inbox. Access: the operator, and the agent itself, whose reading marks messages as seen."""
    async with context.store.begin_read() as tx:
        found_agent = await own_agent(tx, who, agent)
        last = None if after is None else MessageId(after)
        if last is not None and await tx.deliveries.get(found_agent.id, last) is None:
            raise InvalidRequest(f"no message {after!r} in this inbox; `after` is that of the page before")
        deliveries, more = await fetch_page(
            lambda row, most: tx.deliveries.fetch_inbox(
                found_agent.id,
                states=tuple(state or (DeliveryState.UNREAD,)),
                words=q,
                urgent_first=order == "urgent",
                after=last if row is None else row.message.id,
                limit=most,
            ),
            limit,
        )
        counts = await tx.deliveries.count_by_state(found_agent.id)
    if not who.is_operator and any(delivery.seen_at is None for delivery in deliveries):
        async with context.store.begin_write() as tx:
            await tx.deliveries.mark_seen(
                found_agent.id, [delivery.message.id for delivery in deliveries], context.clock.now()
            )
    return InboxPage(
        agent=found_agent.reference,
        counts=dict(counts),
        messages=[InboxItem.of(delivery.message, **delivery_values(delivery)) for delivery in deliveries],
        after=deliveries[-1].message.id if more else None,
    )


def _operator(who: Principal) -> str | None:
    return who.name if who.is_operator else None


@router.post("/agents/{agent}/inbox/{message}/ack")
async def ack_message(agent: str, message: str, who: Who, context: Context) -> AckResult:
    """Mark a message as handled; repeats are allowed. Access: operator, the agent."""
    async with context.store.begin_write() as tx:
        found_agent = await own_agent(tx, who, agent)
        handled = await context.wake.inbox.ack(tx, found_agent, [MessageId(message)], by=_operator(who))
        delivery = await tx.deliveries.get(found_agent.id, MessageId(message))
    assert delivery is not None
    return AckResult(message=message, state=delivery.state, changed=bool(handled))


@router.post("/agents/{agent}/inbox/{message}/snooze")
async def snooze_message(agent: str, message: str, body: SnoozeBody, who: Who, context: Context) -> SnoozeResult:
    """Snooze a message; it becomes unread again later. Access: operator, the agent."""
    async with context.store.begin_write() as tx:
        found_agent = await own_agent(tx, who, agent)
        until = await context.wake.inbox.snooze(
            tx, found_agent, [MessageId(message)], float(body.seconds), by=_operator(who)
        )
    return SnoozeResult(message=message, until=until)


@router.get("/agents/{agent}/sent")
async def list_sent(
    agent: str,
    who: Who,
    context: Context,
    before: Annotated[str | None, Query(description="Id of the last message on the previous page.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="Maximum number of rows, rounded to whole messages.")] = 50,
) -> SentPage:
    """Show the status of an agent's sent messages, direct and in threads. Access: operator, the agent."""
    async with context.store.begin_read() as tx:
        found_agent = await own_agent(tx, who, agent)
        last = None if before is None else MessageId(before)
        if last is not None and await tx.messages.get(last) is None:
            raise InvalidRequest(f"no message {before!r}; `before` is that of the page before")
        deliveries, more = await fetch_whole_messages(
            lambda row, most: tx.deliveries.find_sent(found_agent.id, before=row or last, limit=most), limit
        )
        names = await _find_names(tx, deliveries)
    return SentPage(
        messages=[
            SentItem.of(
                delivery.message,
                to=names[delivery.agent_id],
                thread_name=delivery.thread,
                state=delivery_status(delivery),
                seen_at=delivery.seen_at,
                ended_at=delivery.ended_at,
            )
            for delivery in deliveries
        ],
        before=deliveries[-1].message.id if more else None,
    )


async def fetch_whole_messages(
    fetch: Callable[[MessageId | None, int], Awaitable[Sequence[Delivery]]], limit: int
) -> tuple[Sequence[Delivery], bool]:
    """Return deliveries of whole messages, and whether there are more: a page must not split a message's recipients.

    `fetch` takes the last message so far and the number of rows.
    """
    rows: Sequence[Delivery] = []
    number = min(limit, FIRST_ROWS)
    while True:
        more = await fetch(rows[-1].message.id if rows else None, number + 1)
        if len(more) <= number:
            return [*rows, *more], False
        whole = [delivery for delivery in more if delivery.message.id != more[-1].message.id]
        if not whole:  # one message has more recipients
            number *= 2
            continue
        rows = [*rows, *whole]
        number = count_next(rows, limit)
        if len(rows) >= limit or number <= 1:
            return rows, True


def delivery_values(delivery: Delivery) -> dict[str, Any]:
    """Return what an inbox item has beside the message."""
    return {
        "thread_name": delivery.thread,
        "mentioned": delivery.mentioned,
        "state": delivery.state,
        "until": delivery.leased_until,
        "pulse": delivery.pulse_id,
        "seen_at": delivery.seen_at,
        "ended_at": delivery.ended_at,
    }


unhandled_router = noun_router("messages")

UnhandledState = Literal[DeliveryState.DEAD, DeliveryState.UNREAD, DeliveryState.LEASED]


@unhandled_router.get("/messages")
async def list_unhandled_messages(
    who: Who,
    context: Context,
    state: Annotated[
        list[UnhandledState] | None,
        Query(description="Only messages in this state; may be repeated; by default `dead`."),
    ] = None,
    before: Annotated[str | None, Query(description="Id of the last message on the previous page.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="Maximum number of rows, rounded to whole messages.")] = 50,
) -> UnhandledPage:
    """List the messages in all inboxes that nobody has handled, by default the dead letters. Operator only."""
    require_operator(who)
    states = tuple(dict.fromkeys(state or (DeliveryState.DEAD,)))
    async with context.store.begin_read() as tx:
        last = None if before is None else MessageId(before)
        if last is not None and await tx.messages.get(last) is None:
            raise InvalidRequest(f"no message {before!r}; `before` is that of the page before")
        deliveries, more = await fetch_whole_messages(
            lambda row, most: tx.deliveries.find_unhandled(states, before=row or last, limit=most), limit
        )
        names = await _find_names(tx, deliveries)
    return UnhandledPage(
        messages=[
            UnhandledMessage.of(delivery.message, to=names[delivery.agent_id], **delivery_values(delivery))
            for delivery in deliveries
        ],
        before=deliveries[-1].message.id if more else None,
    )


@unhandled_router.post("/messages/{message}/requeue")
async def requeue_message(message: str, who: Who, context: Context) -> RequeueResult:
    """Return a dead letter to its inbox, with new attempts; a high priority requests a wake again. Operator only."""
    require_operator(who)
    async with context.store.begin_write() as tx:
        agents, wakes = await context.wake.inbox.requeue(tx, who, MessageId(message))
    return RequeueResult(
        message=message, requeued=[agent.reference for agent in agents], wakes=[wake.id for wake in wakes]
    )


async def _find_names(tx: Tx, deliveries: Sequence[Delivery]) -> Mapping[AgentId, str]:
    """Return the references of all recipients, deleted ones too, in one read."""
    readers = await tx.agents.find_moved({delivery.agent_id: -1 for delivery in deliveries})
    return {reader.id: reader.reference for reader in readers}
