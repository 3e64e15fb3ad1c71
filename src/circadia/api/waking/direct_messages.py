"""Direct messages from an agent or the operator to an agent's inbox, with or without a wake (WAKE-01 … WAKE-06)."""

from typing import Annotated

from fastapi import Header
from pydantic import Field

from circadia.agents.directory import find_own_session
from circadia.api.bodies import Body
from circadia.api.parts import Parts, Who, noun_router
from circadia.api.waking.wake_views import message_outcome, require_speaker
from circadia.errors import InvalidRequest
from circadia.ids import MessageId
from circadia.records.agent import Name
from circadia.records.message import MessageType, Priority
from circadia.records.wake import WakeReason
from circadia.schemas.wakes import SendOutcome
from circadia.wake.admission.budgets import fetch_budgets
from circadia.wake.inbox import OutgoingMessage

router = noun_router("messages")

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


@router.post("/messages", status_code=201)
async def send_direct(body: DirectMessageBody, who: Who, parts: Parts, idempotency_key: Key = None) -> SendOutcome:
    """Put a message into an agent's inbox, and request a wake if it has a reason or a high priority.

    The server stores the message whatever the decision on the wake. Access: the operator, and agents to agents that
    they may address.
    """
    require_speaker(who, body.sender)
    letter = OutgoingMessage(
        to=body.to,
        content=body.content,
        type=body.type,
        priority=body.priority,
        wake=body.wake,
        reply_to=None if body.reply_to is None else MessageId(body.reply_to),
        key=resolve_idempotency_key(body.key, idempotency_key),
    )
    async with parts.store.begin_write() as tx:
        sent = await parts.wake.inbox.send(tx, who, await find_own_session(tx, who), letter)
        budgets = await fetch_budgets(
            tx, sent.to, parts.clock.now(), sender=who.agent, place=sent.place, counts=sent.counts
        )  # fmt: skip
    return message_outcome(sent.to, sent.message, sent.wake, budgets)
