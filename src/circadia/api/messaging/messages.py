"""Messages of a thread: send and list."""

from typing import Annotated

from fastapi import Query
from pydantic import Field

from circadia.agents.directory import find_session, find_thread, hold_readers
from circadia.api.bodies import Body, Names
from circadia.api.pages import fetch_page
from circadia.api.parts import Parts, Who, noun_router
from circadia.records.agent import MOST_COUNTED, Name
from circadia.schemas.messages import MessageList, MessageView

router = noun_router("messages")


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


@router.get("/sessions/{session}/threads/{thread}/messages")
async def list_messages(
    session: str,
    thread: str,
    who: Who,
    parts: Parts,
    after: Annotated[int, Query(ge=0, le=MOST_COUNTED, description="Number of the last message seen.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000, description="Maximum number of rows.")] = 100,
) -> MessageList:
    """List the messages of a thread; this marks no delivery as handled. Access: operator, participants."""
    async with parts.store.begin_read() as tx:
        home = await find_session(tx, who, session)
        found_thread = await find_thread(tx, who, home, thread)
        await parts.threads.require_reader(tx, who, found_thread)
        messages, _ = await fetch_page(
            lambda last, most: tx.messages.find_by_thread(
                found_thread.id, after=after if last is None else last.number, limit=most
            ),
            limit,
        )
    return MessageList(
        messages=[MessageView.of(message) for message in messages], after=messages[-1].number if messages else after
    )


@router.post("/sessions/{session}/threads/{thread}/messages", status_code=201)
async def send_message(session: str, thread: str, body: MessageBody, who: Who, parts: Parts) -> MessageView:
    """Send a message to an open thread: it is delivered to the other participants and can wake the mentioned ones.

    Access: operator, participants.
    """
    async with parts.store.begin_write() as tx:
        home = await find_session(tx, who, session, open_only=True)
        await hold_readers(tx, home, thread)
        found_thread = await find_thread(tx, who, home, thread)
        await parts.threads.send(tx, who, home, found_thread, body.content, body.mentions, sender=body.sender)
        (message,) = await tx.messages.find_latest(found_thread.id, limit=1)  # the same, with its number
    return MessageView.of(message)
