"""Threads of a session: list, open, close, and manage participants."""

from typing import Annotated

from fastapi import Query
from pydantic import Field

from circadia.agents.directory import find_session, find_thread
from circadia.api.bodies import Body, Names
from circadia.api.pages import cut_page, fetch_page
from circadia.api.parts import Parts, Who, noun_router
from circadia.ids import ThreadId
from circadia.records.agent import Name
from circadia.records.thread import Thread
from circadia.schemas.threads import ThreadList, ThreadView
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


async def thread_view(tx: Tx, session: str, thread: Thread) -> ThreadView:
    participants = await tx.threads.participants(thread.id)
    return ThreadView.of(thread, session=session, participants=[participant.name for participant in participants])


@router.get("/sessions/{session}/threads")
async def list_threads(
    session: str,
    who: Who,
    parts: Parts,
    closed: Annotated[bool, Query(description="Also list closed threads.")] = True,
    after: Annotated[str | None, Query(description="`next` of the previous page.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="Maximum number of rows.")] = 1000,
) -> ThreadList:
    """List threads: all for the operator, and for an agent those in which it takes part."""
    async with parts.store.begin_read() as tx:
        home = await find_session(tx, who, session)
        own = who.agent.id if who.agent else None
        first = None if after is None else ThreadId(after)
        threads, more = await fetch_page(
            lambda last, most: tx.threads.find_by_session(
                home.id, agent_id=own, closed=closed, after=first if last is None else last.id, limit=most
            ),
            limit,
        )
        names = await tx.threads.find_participant_names([thread.id for thread in threads])
    rows = cut_page([(thread, names[thread.id]) for thread in threads])
    return ThreadList(
        threads=[ThreadView.of(thread, session=home.name, participants=list(present)) for thread, present in rows],
        next=rows[-1][0].id if more or len(rows) < len(threads) else None,
    )


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
