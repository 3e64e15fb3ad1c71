"""Threads of a session, their messages, inboxes, and what nobody has handled (WAKE-30 … WAKE-34)."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import Field, StrictFloat, StrictInt

from circadia.agents.access import require_operator
from circadia.agents.directory import find_session, find_thread, hold_readers
from circadia.api.bodies import Body, Content, Names, ThreadName, own_agent
from circadia.api.context import (
    FIRST_ROWS,
    Context,
    Limit,
    NextPage,
    Who,
    count_next,
    cut_page,
    fetch_page,
    noun_router,
)
from circadia.errors import InvalidRequest
from circadia.ids import AgentId, MessageId, ThreadId
from circadia.records.agent import MAX_COUNT, Name
from circadia.records.message import Delivery, DeliveryState
from circadia.records.principal import Principal
from circadia.records.thread import Thread
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
from circadia.schemas.sessions import MessageList, MessageView, ThreadList, ThreadView
from circadia.stores.base import Tx
from circadia.wake.inbox import MAX_SNOOZE_SECONDS, delivery_status

router = noun_router("threads")


class ThreadBody(Body):
    """A thread to open."""

    name: ThreadName = Field(description="Name, 1 to 200 characters.", examples=["release notes"])
    participants: Names = Field(
        default_factory=list[str],
        description="Participants: `name` or `session:name`. An agent that opens a thread always takes part.",
        examples=[["writer", "reviewer"]],
    )


class ParticipantBody(Body):
    """An agent to add."""

    agent: Name = Field(description="`name` or `session:name`.", examples=["writer"])


class CloseBody(Body):
    """A closing summary."""

    summary: str | None = Field(None, max_length=16_000, description="Summary of the result.")


async def thread_view(tx: Tx, session: str, thread: Thread) -> ThreadView:
    participants = await tx.threads.participants(thread.id)
    return ThreadView.of(thread, session=session, participants=[participant.name for participant in participants])


@router.get("/sessions/{session}/threads")
async def list_threads(
    session: str,
    who: Who,
    context: Context,
    closed: Annotated[bool, Query(description="Also list closed threads.")] = True,
    after: NextPage = None,
    limit: Limit = 1000,
) -> ThreadList:
    """List threads: all for the operator, and for an agent those in which it takes part."""
    async with context.store.begin_read() as tx:
        found_session = await find_session(tx, who, session)
        own = who.agent.id if who.agent else None
        first = None if after is None else ThreadId(after)
        threads, more = await fetch_page(
            lambda last, most: tx.threads.find_by_session(
                found_session.id, agent_id=own, closed=closed, after=first if last is None else last.id, limit=most
            ),
            limit,
        )
        names = await tx.threads.find_participant_names([thread.id for thread in threads])
    rows = cut_page([(thread, names[thread.id]) for thread in threads])
    return ThreadList(
        threads=[
            ThreadView.of(thread, session=found_session.name, participants=list(present)) for thread, present in rows
        ],
        next=rows[-1][0].id if more or len(rows) < len(threads) else None,
    )


@router.post("/sessions/{session}/threads", status_code=201)
async def create_thread(session: str, body: ThreadBody, who: Who, context: Context) -> ThreadView:
    """Open a thread. Access: operator, agents with access to the session."""
    async with context.store.begin_write() as tx:
        found_session = await find_session(tx, who, session, open_only=True)
        thread = await context.threads.create(tx, who, found_session, body.name, body.participants)
        return await thread_view(tx, found_session.name, thread)


@router.post("/sessions/{session}/threads/{thread}/participants", status_code=201)
async def add_participant(session: str, thread: str, body: ParticipantBody, who: Who, context: Context) -> ThreadView:
    """Add an agent to an open thread, which can wake it. Access: operator, participants."""
    async with context.store.begin_write() as tx:
        found_session = await find_session(tx, who, session, open_only=True)
        found_thread = await find_thread(tx, who, found_session, thread)
        await context.threads.add(tx, who, found_session, found_thread, body.agent)
        return await thread_view(tx, found_session.name, found_thread)


@router.delete("/sessions/{session}/threads/{thread}/participants/{agent}", status_code=204)
async def remove_participant(session: str, thread: str, agent: str, who: Who, context: Context) -> None:
    """Remove an agent from an open thread, which can put it to sleep. Access: operator, participants."""
    async with context.store.begin_write() as tx:
        found_session = await find_session(tx, who, session, open_only=True)
        await context.threads.remove(tx, who, found_session, await find_thread(tx, who, found_session, thread), agent)


@router.post("/sessions/{session}/threads/{thread}/close")
async def close_thread(
    session: str, thread: str, who: Who, context: Context, body: CloseBody | None = None
) -> ThreadView:
    """Close a thread, which can put its participants to sleep. Access: operator, participants."""
    async with context.store.begin_write() as tx:
        found_session = await find_session(tx, who, session, open_only=True)
        found_thread = await find_thread(tx, who, found_session, thread)
        closed = await context.threads.close(tx, who, found_session, found_thread, body.summary if body else None)
        return await thread_view(tx, found_session.name, closed)


thread_message_router = noun_router("messages")


class MessageBody(Body):
    """A message to send."""

    sender: Name | None = Field(
        None,
        alias="from",
        description="Sender. An agent omits it or names itself; the operator names any participant, or `user` or "
        "`operator` for a person.",
        examples=["user"],
    )
    content: Content = Field(description="Text.", examples=["@writer please start"])
    mentions: Names = Field(
        default_factory=list[str],
        description="Participants to mention; a mention can wake them.",
        examples=[["writer"]],
    )


@thread_message_router.get("/sessions/{session}/threads/{thread}/messages")
async def list_messages(
    session: str,
    thread: str,
    who: Who,
    context: Context,
    after: Annotated[int, Query(ge=0, le=MAX_COUNT, description="Number of the last message seen.")] = 0,
    before: Annotated[
        int | None, Query(ge=1, le=MAX_COUNT, description="The last messages before this number, in place of `after`.")
    ] = None,
    limit: Limit = 100,
) -> MessageList:
    """List the messages of a thread; this marks no delivery as handled. Access: operator, participants.

    With `before`, a page has the last messages before it, in order: a reader begins with the newest ones.
    """
    async with context.store.begin_read() as tx:
        found_session = await find_session(tx, who, session)
        found_thread = await find_thread(tx, who, found_session, thread)
        await context.threads.require_reader(tx, who, found_thread)
        if before is not None:
            older, _ = await fetch_page(
                lambda last, most: tx.messages.find_before(
                    found_thread.id, before if last is None else last.number, limit=most
                ),
                limit,
            )
            messages = older[::-1]
        else:
            messages, _ = await fetch_page(
                lambda last, most: tx.messages.find_by_thread(
                    found_thread.id, after=after if last is None else last.number, limit=most
                ),
                limit,
            )
    return MessageList(
        messages=[MessageView.of(message) for message in messages], after=messages[-1].number if messages else after
    )


@thread_message_router.post("/sessions/{session}/threads/{thread}/messages", status_code=201)
async def send_message(session: str, thread: str, body: MessageBody, who: Who, context: Context) -> MessageView:
    """Send a message to an open thread: it is delivered to the other participants and can wake the mentioned ones.

    Access: operator, participants.
    """
    async with context.store.begin_write() as tx:
        found_session = await find_session(tx, who, session, open_only=True)
        await hold_readers(tx, found_session, thread)
        found_thread = await find_thread(tx, who, found_session, thread)
        await context.threads.send(
            tx, who, found_session, found_thread, body.content, body.mentions, sender=body.sender
        )
        (message,) = await tx.messages.find_latest(found_thread.id, limit=1)  # the same, with its number
    return MessageView.of(message)


inbox_router = noun_router("inbox")


class SnoozeBody(Body):
    """The time to snooze a message."""

    seconds: StrictFloat | StrictInt = Field(
        gt=0,
        le=MAX_SNOOZE_SECONDS,
        description="Seconds until it is unread again; more than 0, at most 30 days.",
        examples=[3600],
    )


@inbox_router.get("/agents/{agent}/inbox")
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
    limit: Limit = 50,
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


@inbox_router.post("/agents/{agent}/inbox/{message}/ack")
async def ack_message(agent: str, message: str, who: Who, context: Context) -> AckResult:
    """Mark a message as handled; repeats are allowed. Access: operator, the agent."""
    async with context.store.begin_write() as tx:
        found_agent = await own_agent(tx, who, agent)
        handled = await context.wake.inbox.ack(tx, found_agent, [MessageId(message)], by=_operator(who))
        delivery = await tx.deliveries.get(found_agent.id, MessageId(message))
    assert delivery is not None
    return AckResult(message=message, state=delivery.state, changed=bool(handled))


@inbox_router.post("/agents/{agent}/inbox/{message}/snooze")
async def snooze_message(agent: str, message: str, body: SnoozeBody, who: Who, context: Context) -> SnoozeResult:
    """Snooze a message; it becomes unread again later. Access: operator, the agent."""
    async with context.store.begin_write() as tx:
        found_agent = await own_agent(tx, who, agent)
        until = await context.wake.inbox.snooze(
            tx, found_agent, [MessageId(message)], float(body.seconds), by=_operator(who)
        )
    return SnoozeResult(message=message, until=until)


@inbox_router.get("/agents/{agent}/sent")
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
