"""The tool that lists the session's agents."""

from datetime import datetime
from typing import Final

from pydantic import Field

from circadia.mcp_server.arguments import NoArguments, ToolResult
from circadia.mcp_server.caller import Caller
from circadia.mcp_server.tools.tool import Tool


class SeenAgent(ToolResult):
    name: str = Field(description="Name, for mentions and participants.")
    description: str = Field(description="Purpose.")
    asleep: bool = Field(description="Whether it is asleep.")
    since: datetime = Field(description="When it fell asleep or woke.")
    you: bool = Field(description="Whether it is you.")


class AgentsAnswer(ToolResult):
    agents: list[SeenAgent]


async def _list(caller: Caller, _: NoArguments) -> ToolResult:
    own = caller.principal.agent
    async with caller.parts.store.begin_read() as tx:
        agents = await tx.agents.find_by_session((await caller.home(tx)).id)
    return AgentsAnswer(
        agents=[
            SeenAgent(
                name=agent.name,
                description=agent.description,
                asleep=agent.asleep,
                since=agent.since,
                you=own is not None and own.id == agent.id,
            )
            for agent in agents
            if agent.enabled
        ]
    )


AGENT_TOOLS: Final = (
    Tool(
        name="list_agents",
        description=(
            "List the agents of your session: names, what each is for, and who is asleep. Use it to find out whom to "
            "ask. You can write to an agent that is asleep; a mention may wake it, and otherwise it reads the message "
            "when it wakes."
        ),
        arguments=NoArguments,
        answer=AgentsAnswer,
        run=_list,
        reads_only=True,
    ),
)
