"""Tools for threads, and the one that lists the session's agents."""

from datetime import datetime
from typing import Annotated, Final

from pydantic import Field

from circadia.agents.directory import find_thread
from circadia.mcp_server.caller import Caller, name_from
from circadia.mcp_server.tool import Arguments, NoArguments, ToolResult, tool
from circadia.records.session import Session
from circadia.records.thread import Thread
from circadia.stores.base import Tx


class SeenAgent(ToolResult):
    name: str = Field(description="Name, for mentions and participants.")
    description: str = Field(description="Purpose.")
    asleep: bool = Field(description="Whether it is asleep.")
    since: datetime = Field(description="When it fell asleep or woke.")
    you: bool = Field(description="Whether it is you.")


class AgentsAnswer(ToolResult):
    agents: list[SeenAgent]


@tool(
    "list_agents",
    "List the agents of your session: names, what each is for, and who is asleep. One "
    "that is asleep reads your message when it wakes; a mention may wake it.",
    reads_only=True,
)
async def _list(caller: Caller, _: NoArguments) -> AgentsAnswer:
    own = caller.principal.agent
    async with caller.context.store.begin_read() as tx:
        agents = await tx.agents.find_by_session((await caller.find_session(tx)).id)
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


ThreadName = Annotated[str, Field(description="Id, or name if it is unique.")]
AgentName = Annotated[str, Field(description="Name; `session:name` in another session.")]


class SeenThread(ToolResult):
    id: str = Field(description="Id of the thread.")
    name: str = Field(description="Name.")
    status: str = Field(description="`open` or `closed`.")
    participants: list[str] = Field(description="Participants.")


class ThreadResult(ToolResult):
    thread: SeenThread


class CreateThread(Arguments):
    name: str = Field(description="Topic of the thread, in a few words.")
    participants: list[str] = Field(default=[], max_length=200, description="Agents to add besides you.")


class OneParticipant(Arguments):
    thread: ThreadName
    agent: AgentName


class CloseThread(Arguments):
    thread: ThreadName
    summary: str | None = Field(default=None, max_length=4000, description="Result, for the record.")


async def seen_thread(tx: Tx, session: Session, thread: Thread) -> ThreadResult:
    """Return the thread from the point of view of `session`."""
    names: list[str] = []
    for part in await tx.threads.participants(thread.id):
        agent = await tx.agents.get(part.agent_id)
        names.append(name_from(session, agent.reference) if agent else part.name)
    return ThreadResult(
        thread=SeenThread(id=thread.id, name=thread.name, status=thread.status.value, participants=names)
    )


async def _answer(caller: Caller, session: Session, thread: Thread) -> ThreadResult:
    """Return the thread after a change: in a block of its own, as a write block would hold all participants."""
    async with caller.context.store.begin_read() as tx:
        return await seen_thread(tx, session, thread)


@tool(
    "create_thread",
    "Open a thread to talk with other agents. Being added can wake agents that "
    "are asleep. Open one thread per piece of work; then say what you need with send_message.",
)
async def _create(caller: Caller, arguments: CreateThread) -> ThreadResult:
    async with caller.context.store.begin_write() as tx:
        session = await caller.find_session(tx)
        thread = await caller.context.threads.create(
            tx, caller.principal, session, arguments.name, arguments.participants
        )
    return await _answer(caller, session, thread)


@tool(
    "add_participant",
    "Add an agent to an open thread that you take part in; this can wake it. It gets only later messages, so "
    "tell it what it needs to know with send_message.",
)
async def _add(caller: Caller, arguments: OneParticipant) -> ThreadResult:
    async with caller.context.store.begin_write() as tx:
        session = await caller.find_session(tx)
        thread = await find_thread(tx, caller.principal, session, arguments.thread)
        await caller.context.threads.add(tx, caller.principal, session, thread, arguments.agent)
    return await _answer(caller, session, thread)


@tool(
    "remove_participant",
    "Remove an agent, or yourself, from an open thread once its part is done. An agent without an open thread "
    "may fall asleep, which saves its cost.",
)
async def _remove(caller: Caller, arguments: OneParticipant) -> ThreadResult:
    async with caller.context.store.begin_write() as tx:
        session = await caller.find_session(tx)
        thread = await find_thread(tx, caller.principal, session, arguments.thread)
        await caller.context.threads.remove(tx, caller.principal, session, thread, arguments.agent)
    return await _answer(caller, session, thread)


@tool(
    "close_thread",
    "Close a thread whose work is done. It takes no more messages, and participants without another open "
    "thread may fall asleep. It cannot be opened again.",
)
async def _close(caller: Caller, arguments: CloseThread) -> ThreadResult:
    async with caller.context.store.begin_write() as tx:
        session = await caller.find_session(tx)
        thread = await find_thread(tx, caller.principal, session, arguments.thread)
        closed = await caller.context.threads.close(tx, caller.principal, session, thread, arguments.summary)
    return await _answer(caller, session, closed)


THREAD_TOOLS: Final = (_list, _create, _add, _remove, _close)
