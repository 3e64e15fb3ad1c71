"""The tool that sends a message to a thread."""

from datetime import datetime
from typing import Final

from pydantic import Field

from circadia.agents.directory import find_thread, hold_readers
from circadia.mcp_server.arguments import Arguments, ToolResult
from circadia.mcp_server.caller import Caller, name_from
from circadia.mcp_server.tools.threads import ThreadName
from circadia.mcp_server.tools.tool import Tool


class SendMessage(Arguments):
    thread: ThreadName
    content: str = Field(description="Text. Say all that its readers need; they see only this thread.")
    mentions: list[str] = Field(
        default=[],
        max_length=200,
        description="Names of the participants who must act. A mention wakes a sleeping agent.",
    )


class SentMessage(ToolResult):
    id: str = Field(description="Id of the message.")
    thread: str = Field(description="Id of the thread.")
    mentions: list[str] = Field(description="Mentioned agents.")
    at: datetime = Field(description="Time of acceptance.")


class SendAnswer(ToolResult):
    message: SentMessage


async def _send(caller: Caller, arguments: SendMessage) -> ToolResult:
    async with caller.parts.store.begin_write() as tx:
        home = await caller.home(tx)
        await hold_readers(tx, home, arguments.thread)
        thread = await find_thread(tx, caller.principal, home, arguments.thread)
        sent = await caller.parts.threads.send(
            tx, caller.principal, home, thread, arguments.content, arguments.mentions
        )  # fmt: skip
        return SendAnswer(
            message=SentMessage(
                id=sent.id,
                thread=sent.thread_id,
                mentions=[name_from(home, mention) for mention in sent.mentions],
                at=sent.at,
            )
        )


MESSAGE_TOOLS: Final = (
    Tool(
        name="send_message",
        description=(
            "Send a message to an open thread that you take part in. All participants can read it; name those who must "
            "act in `mentions`, since they wait for mentions and a mention wakes them. To get an answer, call "
            "wait_for_mention or wait_for_agent afterwards; do not poll."
        ),
        arguments=SendMessage,
        answer=SendAnswer,
        run=_send,
    ),
)
