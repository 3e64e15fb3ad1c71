"""Tools for the sleep state."""

from operator import not_
from typing import Annotated, Final

from pydantic import Field

from circadia.agents.access import require_sleep_control
from circadia.agents.directory import find_agent_by_reference, hold_agents
from circadia.mcp_server.caller import Caller, name_from
from circadia.mcp_server.tool import Arguments, NoArguments, ToolResult, tool
from circadia.mcp_server.tools.threads import AgentName
from circadia.records.agent import Agent, Cause
from circadia.wake.sleep_control import list_wakers

Unconfirmed = Annotated[
    tuple[str, ...],
    Field(description="Servers that have not confirmed the sleep: they may send calls for a second.", exclude_if=not_),
]


class SetSleepingArguments(Arguments):
    agent: AgentName
    sleeping: bool = Field(description="true puts it to sleep, false wakes it.")


class SelfAnswer(ToolResult):
    sleeping: bool
    actor: str = Field(description="What has woken you at once: a mention that you have not read.")
    wakes_on: list[str] = Field(description="What can wake you. If it is empty, only a person can.")
    unconfirmed: Unconfirmed = ()


class SleepingResult(ToolResult):
    agent: str = Field(description="Agent.")
    sleeping: bool = Field(
        description="Whether the agent is asleep now; one that must be launched sleeps until its program has started."
    )
    unread: list[str] = Field(description="Ids of mentions that it has not seen; they do not wake it from this sleep.")
    unconfirmed: Unconfirmed = ()


async def list_unconfirmed(caller: Caller, agent: Agent) -> tuple[str, ...]:
    """Return the gateways that have not confirmed that the agent sleeps, once all have or 100 ms have passed."""
    return tuple((await caller.context.confirmer.confirm([agent])).get(agent.id, ()))


@tool(
    "sleep_self",
    "Fall asleep when you have nothing to do. This call is still answered; your next call waits, at no cost, "
    "until something in `wakes_on`, or a person, wakes you. Then continue as if no time had passed: "
    "call wait_for_mention to read what woke you.",
)
async def _sleep_self(caller: Caller, _: NoArguments) -> SelfAnswer:
    agent = caller.agent
    async with caller.context.store.begin_write() as tx:
        changed = (
            await caller.context.wake.control.set(tx, caller.principal, agent, asleep=True, cause=Cause.TOOL)
        ).agent
        wakers = await list_wakers(tx, changed)
    return SelfAnswer(
        sleeping=changed.asleep,
        actor="" if changed.asleep else changed.actor,
        wakes_on=list(wakers),
        unconfirmed=await list_unconfirmed(caller, changed),
    )


@tool(
    "set_sleeping",
    "Put another agent to sleep, or wake it, if the operator allows you to. Its calls wait while it is asleep. "
    "To get an agent's attention, mention it in a message instead.",
)
async def _set_sleeping(caller: Caller, arguments: SetSleepingArguments) -> SleepingResult:
    async with caller.context.store.begin_write() as tx:
        session = await caller.find_session(tx)
        await hold_agents(tx, caller.principal, session, [arguments.agent])
        agent = await find_agent_by_reference(tx, caller.principal, session, arguments.agent)
        require_sleep_control(caller.principal, agent, asleep=arguments.sleeping)
        outcome = await caller.context.wake.control.set(
            tx, caller.principal, agent, asleep=arguments.sleeping, cause=Cause.TOOL
        )
    return SleepingResult(
        agent=name_from(session, agent.reference),
        sleeping=outcome.agent.asleep,
        unread=[str(delivery.message.id) for delivery in outcome.missed],
        unconfirmed=await list_unconfirmed(caller, outcome.agent),
    )


SLEEP_TOOLS: Final = (_sleep_self, _set_sleeping)
