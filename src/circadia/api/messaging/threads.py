"""Threads of a session: list, open, close, and manage participants."""

from datetime import datetime
from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, Field

from circadia.agents.directory import find_session, find_thread
from circadia.api.bodies import Body, Name, Names
from circadia.api.parts import Parts, Who, noun_router
from circadia.records.thread import Thread, ThreadStatus
from circadia.stores.base import Tx

router = noun_router("threads")


class ThreadBody(Body):
    """A thread to open."""

    name: str = Field(description="Name, 1 to 200 characters.", examples=["release notes"])
    participants: Names = Field(
        default_factory=list[str],
        description="Participants: `name` or `session:name`. An agent that opens a thread always takes part.",
        examples=[["writer", "reviewer"]],
    )


class ParticipantBody(Body):
    """An agent to add."""

    agent: Name = Field(description="`name` or `session:name`.", examples=["writer"])


class CloseBody(Body):
    """A closing summary."""

    summary: str | None = Field(None, max_length=16_000, description="Summary of the result.")


class ThreadView(BaseModel):
    """A thread and its participants."""

    id: str = Field(description="Unique id.", examples=["thr_0cwd…"])
    name: str = Field(description="Name; need not be unique.", examples=["release notes"])
    session: str = Field(description="Name of the session.", examples=["default"])
    status: ThreadStatus = Field(description="`open` or `closed`; a closed one stays closed.")
    participants: list[str] = Field(description="Names of the current participants.")
    created_by: str = Field(description="Reference of its creator, or `operator`.")
    created_at: datetime = Field(description="Time of opening.")
    closed_at: datetime | None = Field(description="Time of closing.")
    summary: str | None = Field(description="Summary from whoever closed it.")


class ThreadList(BaseModel):
    """Threads of a session."""

    threads: list[ThreadView] = Field(description="Sorted by age, oldest first.")


async def thread_view(tx: Tx, session: str, thread: Thread) -> ThreadView:
    parts = await tx.threads.participants(thread.id)
    return ThreadView(
        id=thread.id,
        name=thread.name,
        session=session,
        status=thread.status,
        participants=[part.name for part in parts],
        created_by=thread.created_by,
        created_at=thread.created_at,
        closed_at=thread.closed_at,
        summary=thread.summary,
    )


@router.get("/sessions/{session}/threads")
async def list_threads(
    session: str,
    who: Who,
    parts: Parts,
    closed: Annotated[bool, Query(description="Also list closed threads.")] = True,
) -> ThreadList:
    """List threads: all for the operator, and for an agent those in which it takes part."""
    async with parts.store.begin_read() as tx:
        home = await find_session(tx, who, session)
        own = who.agent.id if who.agent else None
        threads = await tx.threads.find_by_session(home.id, agent_id=own, closed=closed)
        return ThreadList(threads=[await thread_view(tx, home.name, thread) for thread in threads])


@router.post("/sessions/{session}/threads", status_code=201)
async def create_thread(session: str, body: ThreadBody, who: Who, parts: Parts) -> ThreadView:
    """Open a thread. Access: operator, agents with access to the session."""
    async with parts.store.begin_write() as tx:
        home = await find_session(tx, who, session, open_only=True)
        thread = await parts.threads.create(tx, who, home, body.name, body.participants)
        return await thread_view(tx, home.name, thread)


@router.post("/sessions/{session}/threads/{thread}/participants", status_code=201)
async def add_participant(session: str, thread: str, body: ParticipantBody, who: Who, parts: Parts) -> ThreadView:
    """Add an agent to an open thread, which can wake it. Access: operator, participants."""
    async with parts.store.begin_write() as tx:
        home = await find_session(tx, who, session, open_only=True)
        found_thread = await find_thread(tx, who, home, thread)
        await parts.threads.add(tx, who, home, found_thread, body.agent)
        return await thread_view(tx, home.name, found_thread)


@router.delete("/sessions/{session}/threads/{thread}/participants/{agent}", status_code=204)
async def remove_participant(session: str, thread: str, agent: str, who: Who, parts: Parts) -> None:
    """Remove an agent from an open thread, which can put it to sleep. Access: operator, participants."""
    async with parts.store.begin_write() as tx:
        home = await find_session(tx, who, session, open_only=True)
        await parts.threads.remove(tx, who, home, await find_thread(tx, who, home, thread), agent)


@router.post("/sessions/{session}/threads/{thread}/close")
async def close_thread(session: str, thread: str, who: Who, parts: Parts, body: CloseBody | None = None) -> ThreadView:
    """Close a thread, which can put its participants to sleep. Access: operator, participants."""
    async with parts.store.begin_write() as tx:
        home = await find_session(tx, who, session, open_only=True)
        found_thread = await find_thread(tx, who, home, thread)
        closed = await parts.threads.close(tx, who, home, found_thread, body.summary if body else None)
        return await thread_view(tx, home.name, closed)
