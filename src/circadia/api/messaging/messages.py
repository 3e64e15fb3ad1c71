"""Messages of a thread: say something, and read what was said."""

from datetime import datetime
from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, Field

from circadia.agents.directory import find_session, find_thread
from circadia.api.bodies import Body, Name, Names
from circadia.api.parts import Parts, Who, noun_router
from circadia.api.policies import MOST_COUNTED
from circadia.records.message import Message

router = noun_router("messages")


class MessageBody(Body):
    """A message to send."""

    sender: Name | None = Field(
        None,
        alias="from",
        description="Who says it. An agent leaves it out, or names itself; the operator names any participant, or "
        "says `user` or `operator` for a person.",
        examples=["user"],
    )
    content: str = Field(description="The text.", examples=["@writer please start"])
    mentions: Names = Field(
        default_factory=list[str],
        description="Participants that it is meant for; that can wake them.",
        examples=[["writer"]],
    )


class MessageView(BaseModel):
    """A message that was accepted."""

    id: str = Field(description="Key.", examples=["msg_0cwd…"])
    number: int = Field(description="Order of acceptance, ascending.")
    thread: str = Field(description="Key of its thread.", examples=["thr_0cwd…"])
    sender: str = Field(serialization_alias="from", description="Who said it.", examples=["user"])
    content: str = Field(description="The text.")
    mentions: list[str] = Field(description="References of the agents that it mentions.")
    at: datetime = Field(description="When it was accepted.")


class MessageList(BaseModel):
    """Messages of a thread."""

    messages: list[MessageView] = Field(description="In the order of acceptance.")
    after: int = Field(description="What to send as `after` for the next ones.")


def _view(message: Message) -> MessageView:
    return MessageView(
        id=message.id,
        number=message.number,
        thread=message.thread_id,
        sender=message.sender,
        content=message.content,
        mentions=list(message.mentions),
        at=message.at,
    )


@router.get("/sessions/{s}/threads/{t}/messages")
async def list_messages(
    s: str,
    t: str,
    who: Who,
    parts: Parts,
    after: Annotated[int, Query(ge=0, le=MOST_COUNTED, description="Number of the last message seen.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000, description="How many at most.")] = 100,
) -> MessageList:
    """Read what was said in a thread. The operator, and participants; it handles no delivery."""
    async with parts.store.begin_read() as tx:
        session = await find_session(tx, who, s)
        thread = await find_thread(tx, who, session, t)
        await parts.threads.require_reader(tx, who, thread)
        found = await tx.messages.find_by_thread(thread.id, after=after, limit=limit)
    return MessageList(messages=[_view(each) for each in found], after=found[-1].number if found else after)


@router.post("/sessions/{s}/threads/{t}/messages", status_code=201)
async def send_message(s: str, t: str, body: MessageBody, who: Who, parts: Parts) -> MessageView:
    """Say something in an open thread: a delivery for each other participant, and a wake for the mentioned.

    The operator, and participants.
    """
    async with parts.store.begin_write() as tx:
        session = await find_session(tx, who, s, open_only=True)
        thread = await find_thread(tx, who, session, t)
        await parts.threads.send(tx, who, session, thread, body.content, body.mentions, sender=body.sender)
        (message,) = await tx.messages.find_latest(thread.id, limit=1)  # the same, with its number
    return _view(message)
