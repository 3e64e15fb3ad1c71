"""Tools for threads."""

from typing import Annotated, Final

from pydantic import Field

from circadia.agents.directory import find_thread
from circadia.mcp_server.arguments import Arguments, ToolResult
from circadia.mcp_server.caller import Caller, name_from
from circadia.mcp_server.tools.tool import Tool
from circadia.records.session import Session
from circadia.records.thread import Thread
from circadia.stores.base import Tx

ThreadName = Annotated[str, Field(description="Id of the thread, or its name if only one open thread has it.")]
AgentName = Annotated[str, Field(description="Name of the agent; `session:name` for one of another session.")]


class SeenThread(ToolResult):
    id: str = Field(description="Id of the thread.")
    name: str = Field(description="Name.")
    status: str = Field(description="`open` or `closed`.")
    participants: list[str] = Field(description="Participants.")


class ThreadResult(ToolResult):
    thread: SeenThread


class CreateThread(Arguments):
    name: str = Field(description="Topic of the thread, in a few words.")
    participants: list[str] = Field(
        default=[], max_length=200, description="Agents to add besides you. See list_agents for their names."
    )


class OneParticipant(Arguments):
    thread: ThreadName
    agent: AgentName


class CloseThread(Arguments):
    thread: ThreadName
    summary: str | None = Field(default=None, max_length=4000, description="Result, for the record.")


async def seen_thread(tx: Tx, home: Session, thread: Thread) -> ThreadResult:
    """Return the thread from the point of view of `home`."""
    names: list[str] = []
    for part in await tx.threads.participants(thread.id):
        agent = await tx.agents.get(part.agent_id)
        names.append(name_from(home, agent.reference) if agent else part.name)
    return ThreadResult(
        thread=SeenThread(id=thread.id, name=thread.name, status=thread.status.value, participants=names)
    )


async def _answer(caller: Caller, home: Session, thread: Thread) -> ToolResult:
    """Return the thread after a change: in a block of its own, as a write block would hold all participants."""
    async with caller.parts.store.begin_read() as tx:
        return await seen_thread(tx, home, thread)


async def _create(caller: Caller, arguments: CreateThread) -> ToolResult:
    async with caller.parts.store.begin_write() as tx:
        home = await caller.home(tx)
        thread = await caller.parts.threads.create(tx, caller.principal, home, arguments.name, arguments.participants)
    return await _answer(caller, home, thread)


async def _add(caller: Caller, arguments: OneParticipant) -> ToolResult:
    async with caller.parts.store.begin_write() as tx:
        home = await caller.home(tx)
        thread = await find_thread(tx, caller.principal, home, arguments.thread)
        await caller.parts.threads.add(tx, caller.principal, home, thread, arguments.agent)
    return await _answer(caller, home, thread)


async def _remove(caller: Caller, arguments: OneParticipant) -> ToolResult:
    async with caller.parts.store.begin_write() as tx:
        home = await caller.home(tx)
        thread = await find_thread(tx, caller.principal, home, arguments.thread)
        await caller.parts.threads.remove(tx, caller.principal, home, thread, arguments.agent)
    return await _answer(caller, home, thread)


async def _close(caller: Caller, arguments: CloseThread) -> ToolResult:
    async with caller.parts.store.begin_write() as tx:
        home = await caller.home(tx)
        thread = await find_thread(tx, caller.principal, home, arguments.thread)
        closed = await caller.parts.threads.close(tx, caller.principal, home, thread, arguments.summary)
    return await _answer(caller, home, closed)


THREAD_TOOLS: Final = (
    Tool(
        name="create_thread",
        description=(
            "Open a thread to talk with other agents. You take part in it yourself. Being added can wake agents that "
            "are asleep. Open one thread per piece of work; then say what you need with send_message."
        ),
        arguments=CreateThread,
        answer=ThreadResult,
        run=_create,
    ),
    Tool(
        name="add_participant",
        description=(
            "Add an agent to an open thread that you take part in; this can wake it. It gets only later messages, so "
            "tell it what it needs to know with send_message."
        ),
        arguments=OneParticipant,
        answer=ThreadResult,
        run=_add,
    ),
    Tool(
        name="remove_participant",
        description=(
            "Remove an agent, or yourself, from an open thread once its part is done. An agent without an open thread "
            "may fall asleep, which saves its cost."
        ),
        arguments=OneParticipant,
        answer=ThreadResult,
        run=_remove,
    ),
    Tool(
        name="close_thread",
        description=(
            "Close a thread whose work is done. It takes no more messages, and participants without another open "
            "thread may fall asleep. It cannot be opened again."
        ),
        arguments=CloseThread,
        answer=ThreadResult,
        run=_close,
    ),
)
