"""Tools on the sleep state."""

from typing import Final

from pydantic import Field

from circadia.agents.access import require_sleep_control
from circadia.agents.directory import find_agent_by_reference
from circadia.mcp_server.arguments import Arguments, NoArguments, ToolResult
from circadia.mcp_server.caller import Caller, name_from
from circadia.mcp_server.tools.threads import AgentName
from circadia.mcp_server.tools.tool import Tool
from circadia.records.agent import Cause


class SetSleepingArguments(Arguments):
    """What `set_sleeping` takes."""

    agent: AgentName
    sleeping: bool = Field(description="true puts it to sleep, false wakes it.")


class SelfAnswer(ToolResult):
    """The caller's own state."""

    sleeping: bool


class SleepingResult(ToolResult):
    """The agent's state after the call."""

    agent: str = Field(description="The agent.")
    sleeping: bool = Field(description="Whether it is asleep now.")


async def _sleep_self(caller: Caller, _: NoArguments) -> ToolResult:
    agent = caller.agent
    async with caller.parts.store.begin_write() as tx:
        moved = await caller.parts.sleep.set(tx, agent, asleep=True, cause=Cause.TOOL, actor=agent.reference)
    return SelfAnswer(sleeping=moved.asleep)


async def _set_sleeping(caller: Caller, given: SetSleepingArguments) -> ToolResult:
    async with caller.parts.store.begin_write() as tx:
        home = await caller.home(tx)
        agent = await find_agent_by_reference(tx, caller.principal, home, given.agent)
        require_sleep_control(caller.principal, agent, asleep=given.sleeping)
        moved = await caller.parts.sleep.set(
            tx, agent, asleep=given.sleeping, cause=Cause.TOOL, actor=caller.principal.name
        )
    return SleepingResult(agent=name_from(home, moved.reference), sleeping=moved.asleep)


SLEEP_TOOLS: Final = (
    Tool(
        name="sleep_self",
        description=(
            "Fall asleep when you have nothing to do. This call is still answered; your next call waits, at no cost, "
            "until an event wakes you, such as a mention, or somebody else does. Then go on as if no time had passed: "
            "call wait_for_mention to read what woke you."
        ),
        arguments=NoArguments,
        answer=SelfAnswer,
        run=_sleep_self,
    ),
    Tool(
        name="set_sleeping",
        description=(
            "Put another agent to sleep, or wake it, where the operator has allowed you to. Its calls wait while it is "
            "asleep. To get an agent's attention, mention it in a message instead."
        ),
        arguments=SetSleepingArguments,
        answer=SleepingResult,
        run=_set_sleeping,
    ),
)
