"""Tools that wait for messages; these are handled once the answer is sent (GATE-71)."""

from typing import Annotated, Final

from pydantic import Field

from circadia.agents.directory import find_agent_by_reference
from circadia.agents.waits import MessageFilter
from circadia.errors import InvalidRequest
from circadia.mcp_server.arguments import Arguments, ToolResult, take_fitting
from circadia.mcp_server.caller import Caller
from circadia.mcp_server.fence import SeenMessage, fence_messages, message_view
from circadia.mcp_server.tools.tool import Tool

DEFAULT_SECONDS: Final = 50.0
"""Below the 60 seconds after which TypeScript clients give up."""
MOST_SECONDS: Final = 3600.0
"""Longest wait; for a longer one, wait in a loop."""
PEOPLE: Final = ("operator", "user")
"""Senders that are not agents."""

Seconds = Annotated[
    float,
    Field(
        ge=0,
        le=MOST_SECONDS,
        description=("Longest wait; 0 only looks. Most clients give up after 60; wait longer only if yours does not."),
    ),
]


class Wait(Arguments):
    timeout_seconds: Seconds = DEFAULT_SECONDS


class WaitForAgent(Wait):
    agent: str = Field(description="Name of the sender to wait for; `operator` or `user` for a person.")


class WaitAnswer(ToolResult):
    messages: list[SeenMessage] = Field(description="Unhandled messages, oldest first.")
    timed_out: bool = Field(description="Whether the time ended before a message arrived.")

    def text(self) -> str:
        if not self.messages:
            return "No message arrived in this time. Call the tool again to continue waiting."
        return fence_messages(self.messages)


async def _take(caller: Caller, wanted: MessageFilter, seconds: float) -> ToolResult:
    agent = caller.agent
    async with caller.parts.store.begin_read() as tx:
        home = await caller.home(tx)
    deliveries = await caller.parts.waits.take(agent, wanted, seconds)
    fitting = take_fitting(deliveries, lambda delivery: delivery.message.content)
    caller.handover.give(agent.id, [delivery.message.id for delivery in fitting])
    if len(fitting) < len(deliveries):
        caller.handover.free(agent.id, [delivery.message.id for delivery in deliveries[len(fitting) :]])
    return WaitAnswer(messages=[message_view(delivery, home) for delivery in fitting], timed_out=not deliveries)


async def _for_message(caller: Caller, arguments: Wait) -> ToolResult:
    return await _take(caller, MessageFilter(), arguments.timeout_seconds)


async def _for_mention(caller: Caller, arguments: Wait) -> ToolResult:
    return await _take(caller, MessageFilter(mentioned=True), arguments.timeout_seconds)


async def _for_agent(caller: Caller, arguments: WaitForAgent) -> ToolResult:
    sender = arguments.agent
    if sender not in PEOPLE:
        async with caller.parts.store.begin_read() as tx:
            agent = await find_agent_by_reference(tx, caller.principal, await caller.home(tx), arguments.agent)
        if agent.id == caller.agent.id:
            raise InvalidRequest("you cannot wait for yourself; name another agent")
        sender = agent.reference
    return await _take(caller, MessageFilter(sender=sender), arguments.timeout_seconds)


_SHARED = (
    " Returns unhandled messages immediately, else waits, which costs no tokens; if `timed_out` is true, call it "
    "again. Each message is returned once."
)

WAIT_TOOLS: Final = (
    Tool(
        name="wait_for_message",
        description="Wait for any message in your threads, whoever wrote it and whether or not it mentions you."
        + _SHARED,
        arguments=Wait,
        answer=WaitAnswer,
        run=_for_message,
    ),
    Tool(
        name="wait_for_mention",
        description=(
            "Wait for a message that mentions you: the usual way to wait for work. Messages that do not mention you "
            "stay unread for wait_for_message." + _SHARED
        ),
        arguments=Wait,
        answer=WaitAnswer,
        run=_for_mention,
    ),
    Tool(
        name="wait_for_agent",
        description=(
            "Wait for a message from one agent, for example the answer to what you asked it. Messages of others stay "
            "unread." + _SHARED
        ),
        arguments=WaitForAgent,
        answer=WaitAnswer,
        run=_for_agent,
    ),
)
