"""Messages that need a person, over the inboxes of all agents: dead letters, and what is unread or leased."""

from typing import Annotated, Literal

from fastapi import Query

from circadia.agents.access import require_operator
from circadia.api.messaging.inbox import delivery_values, fetch_whole_messages
from circadia.api.parts import Parts, Who, noun_router
from circadia.errors import InvalidRequest
from circadia.ids import MessageId
from circadia.records.message import DeliveryState
from circadia.schemas.inbox import RequeueResult, UnhandledMessage, UnhandledPage

router = noun_router("messages")

UnhandledState = Literal[DeliveryState.DEAD, DeliveryState.UNREAD, DeliveryState.LEASED]


@router.get("/messages")
async def list_unhandled_messages(
    who: Who,
    parts: Parts,
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
    async with parts.store.begin_read() as tx:
        last = None if before is None else MessageId(before)
        if last is not None and await tx.messages.get(last) is None:
            raise InvalidRequest(f"no message {before!r}; `before` is that of the page before")
        deliveries, more = await fetch_whole_messages(
            lambda row, most: tx.deliveries.find_unhandled(states, before=row or last, limit=most), limit
        )
        readers = await tx.agents.find_moved({delivery.agent_id: -1 for delivery in deliveries})  # all, in one read
    names = {reader.id: reader.reference for reader in readers}
    return UnhandledPage(
        messages=[
            UnhandledMessage.of(delivery.message, to=names[delivery.agent_id], **delivery_values(delivery))
            for delivery in deliveries
        ],
        before=deliveries[-1].message.id if more else None,
    )


@router.post("/messages/{message}/requeue")
async def requeue_message(message: str, who: Who, parts: Parts) -> RequeueResult:
    """Return a dead letter to its inbox, with new attempts; a high priority requests a wake again. Operator only."""
    require_operator(who)
    async with parts.store.begin_write() as tx:
        agents, wakes = await parts.wake.inbox.requeue(tx, who, MessageId(message))
    return RequeueResult(
        message=message, requeued=[agent.reference for agent in agents], wakes=[wake.id for wake in wakes]
    )
