"""The tool that sends a message."""

from datetime import datetime
from typing import Final

from pydantic import Field

from circadia.agents.directory import find_thread
from circadia.mcp_server.arguments import Arguments, ToolResult
from circadia.mcp_server.caller import Caller, name_from
from circadia.mcp_server.tools.threads import ThreadName
from circadia.mcp_server.tools.tool import Tool


class SendMessage(Arguments):
    """What `send_message` takes."""

    thread: ThreadName
    content: str = Field(description="The text. Say all that its readers need; they see only this thread.")
    mentions: list[str] = Field(
        default=[],
        max_length=200,
        description="Names of the participants who must act on it. A mention is what wakes an agent that is asleep.",
    )


class SentMessage(ToolResult):
    """What became of the message."""

    id: str = Field(description="Id of the message.")
    thread: str = Field(description="Id of the thread.")
    mentions: list[str] = Field(description="Agents that it mentions.")
    at: datetime = Field(description="When it was accepted.")


class SendAnswer(ToolResult):
    """The message that was accepted."""

    message: SentMessage


async def _send(caller: Caller, given: SendMessage) -> ToolResult:
    async with caller.parts.store.begin_write() as tx:
        home = await caller.home(tx)
        thread = await find_thread(tx, caller.principal, home, given.thread)
        sent = await caller.parts.threads.send(
            tx, caller.principal, home, thread, given.content, given.mentions
        )  # fmt: skip
        return SendAnswer(
            message=SentMessage(
                id=sent.id,
                thread=sent.thread_id,
                mentions=[name_from(home, each) for each in sent.mentions],
                at=sent.at,
            )
        )


MESSAGE_TOOLS: Final = (
    Tool(
        name="send_message",
        description=(
            "Say something in an open thread that you take part in. All participants can read it; name in `mentions` "
            "those who must act, since a mention is what they wait for and what wakes them. To get an answer, call "
            "wait_for_mention or wait_for_agent afterwards; do not poll."
        ),
        arguments=SendMessage,
        answer=SendAnswer,
        run=_send,
    ),
)
