"""Threads of a session and their messages: list, open, close, manage participants, send."""

from typing import Annotated

from fastapi import Query
from pydantic import Field

from circadia.agents.directory import find_session, find_thread, hold_readers
from circadia.api.bodies import Body, Names
from circadia.api.context import Context, Who, noun_router
from circadia.api.pages import cut_page, fetch_page
from circadia.ids import ThreadId
from circadia.records.agent import MOST_COUNTED, Name
from circadia.records.thread import Thread
from circadia.schemas.messages import MessageList, MessageView
from circadia.schemas.threads import ThreadList, ThreadView
from circadia.stores.base import Tx

router = noun_router("threads")


class ThreadBody(Body):
    """A thread to open."""

    name: str = Field(description="Name, 1 to 200 characters.", examples=["release notes"])
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
    after: Annotated[str | None, Query(description="`next` of the previous page.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="Maximum number of rows.")] = 1000,
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


message_router = noun_router("messages")


class MessageBody(Body):
    """A message to send."""

    sender: Name | None = Field(
        None,
        alias="from",
        description="Sender. An agent omits it or names itself; the operator names any participant, or `user` or "
        "`operator` for a person.",
        examples=["user"],
    )
    content: str = Field(description="Text.", examples=["@writer please start"])
    mentions: Names = Field(
        default_factory=list[str],
        description="Participants to mention; a mention can wake them.",
        examples=[["writer"]],
    )


@message_router.get("/sessions/{session}/threads/{thread}/messages")
async def list_messages(
    session: str,
    thread: str,
    who: Who,
    context: Context,
    after: Annotated[int, Query(ge=0, le=MOST_COUNTED, description="Number of the last message seen.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000, description="Maximum number of rows.")] = 100,
) -> MessageList:
    """List the messages of a thread; this marks no delivery as handled. Access: operator, participants."""
    async with context.store.begin_read() as tx:
        found_session = await find_session(tx, who, session)
        found_thread = await find_thread(tx, who, found_session, thread)
        await context.threads.require_reader(tx, who, found_thread)
        messages, _ = await fetch_page(
            lambda last, most: tx.messages.find_by_thread(
                found_thread.id, after=after if last is None else last.number, limit=most
            ),
            limit,
        )
    return MessageList(
        messages=[MessageView.of(message) for message in messages], after=messages[-1].number if messages else after
    )


@message_router.post("/sessions/{session}/threads/{thread}/messages", status_code=201)
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
