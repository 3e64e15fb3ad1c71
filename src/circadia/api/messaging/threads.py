"""Threads of a session: list, open, close, and who takes part."""

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

    name: str = Field(description="What it is about; 1 to 200 characters.", examples=["release notes"])
    participants: Names = Field(
        default_factory=list[str],
        description="Agents that take part: `name`, or `session:name`. An agent that asks takes part anyway.",
        examples=[["writer", "reviewer"]],
    )


class ParticipantBody(Body):
    """An agent to add."""

    agent: Name = Field(description="`name`, or `session:name`.", examples=["writer"])


class CloseBody(Body):
    """What to say at the end."""

    summary: str | None = Field(None, max_length=16_000, description="What came of it.")


class ThreadView(BaseModel):
    """A thread and who takes part."""

    id: str = Field(description="Key.", examples=["thr_0cwd…"])
    name: str = Field(description="What it is about; need not be unique.", examples=["release notes"])
    session: str = Field(description="Its session's name.", examples=["default"])
    status: ThreadStatus = Field(description="Open or closed; closed is final.")
    participants: list[str] = Field(description="Names of the agents that take part now.")
    created_by: str = Field(description="Reference of its creator, or `operator`.")
    created_at: datetime = Field(description="When it was opened.")
    closed_at: datetime | None = Field(description="When it was closed.")
    summary: str | None = Field(description="What the one who closed it left to say.")


class ThreadList(BaseModel):
    """Threads of a session."""

    threads: list[ThreadView] = Field(description="Oldest first.")


async def thread_view(tx: Tx, session: str, thread: Thread) -> ThreadView:
    """Return the thread as it is shown."""
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


@router.get("/sessions/{s}/threads")
async def list_threads(
    s: str,
    who: Who,
    parts: Parts,
    closed: Annotated[bool, Query(description="Whether closed threads are listed too.")] = True,
) -> ThreadList:
    """List threads: all for the operator, for an agent those in which it takes part."""
    async with parts.store.begin_read() as tx:
        session = await find_session(tx, who, s)
        own = who.agent.id if who.agent else None
        threads = await tx.threads.find_by_session(session.id, agent_id=own, closed=closed)
        return ThreadList(threads=[await thread_view(tx, session.name, thread) for thread in threads])


@router.post("/sessions/{s}/threads", status_code=201)
async def create_thread(s: str, body: ThreadBody, who: Who, parts: Parts) -> ThreadView:
    """Open a thread. The operator, and agents of the session (or granted it)."""
    async with parts.store.begin_write() as tx:
        session = await find_session(tx, who, s, open_only=True)
        thread = await parts.threads.create(tx, who, session, body.name, body.participants)
        return await thread_view(tx, session.name, thread)


@router.post("/sessions/{s}/threads/{t}/participants", status_code=201)
async def add_participant(s: str, t: str, body: ParticipantBody, who: Who, parts: Parts) -> ThreadView:
    """Add an agent to an open thread; that can wake it. The operator, and participants."""
    async with parts.store.begin_write() as tx:
        session = await find_session(tx, who, s, open_only=True)
        thread = await find_thread(tx, who, session, t)
        await parts.threads.add(tx, who, session, thread, body.agent)
        return await thread_view(tx, session.name, thread)


@router.delete("/sessions/{s}/threads/{t}/participants/{a}", status_code=204)
async def remove_participant(s: str, t: str, a: str, who: Who, parts: Parts) -> None:
    """Take an agent out of an open thread; that can put it to sleep. The operator, and participants."""
    async with parts.store.begin_write() as tx:
        session = await find_session(tx, who, s, open_only=True)
        await parts.threads.remove(tx, who, session, await find_thread(tx, who, session, t), a)


@router.post("/sessions/{s}/threads/{t}/close")
async def close_thread(s: str, t: str, who: Who, parts: Parts, body: CloseBody | None = None) -> ThreadView:
    """Close a thread; that can put its participants to sleep. The operator, and participants."""
    async with parts.store.begin_write() as tx:
        session = await find_session(tx, who, s, open_only=True)
        thread = await find_thread(tx, who, session, t)
        closed = await parts.threads.close(tx, who, session, thread, body.summary if body else None)
        return await thread_view(tx, session.name, closed)
