"""Finds sessions, agents and threads by what people write, and says what is near when there is no such thing."""

import difflib
from collections.abc import Iterable
from datetime import UTC, datetime

from circadia.agents.access import require_reach
from circadia.errors import Conflict, NotFound
from circadia.ids import SessionId, ThreadId
from circadia.records.agent import Agent
from circadia.records.principal import Principal
from circadia.records.session import Session, SessionStatus
from circadia.records.thread import Thread, ThreadStatus
from circadia.stores.base import Tx

_NEVER = datetime.min.replace(tzinfo=UTC)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint with the known names that are nearest to `name`, or with all if few, or nothing."""
    names = sorted(set(known))
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    close = close or [known for known in names if len(name) > 2 and name in known][:5]
    if close:
        return f"; did you mean {', '.join(map(repr, close))}?"
    return f"; there are {', '.join(map(repr, names))}" if 0 < len(names) <= 8 else ""


async def session_of(tx: Tx, principal: Principal, name: str, *, open_only: bool = False) -> Session:
    """Return the session of this name (or key) that the principal may reach.

    Raises:
        NotFound: there is none. Forbidden: it may not be reached. Conflict: `open_only` and it is closed.
    """
    session = await tx.sessions.by_name(name) or await tx.sessions.get(SessionId(name))
    if session is None:
        hint = nearest(name, [s.name for s in await tx.sessions.every()]) if principal.operator else ""
        if not principal.operator and principal.agent is not None:
            require_reach(principal, _nowhere(name))
        raise NotFound(f"no session {name!r}{hint}")
    require_reach(principal, session)
    if open_only and session.status is SessionStatus.CLOSED:
        raise Conflict(f"session {session.name!r} is closed; create another")
    return session


def _nowhere(name: str) -> Session:
    """Return a stand-in: a foreign caller must not tell a missing session from one that is not granted."""
    return Session(id=SessionId(""), name=name, status=SessionStatus.CLOSED, created_at=_NEVER, touched_at=_NEVER)


async def agent_of(tx: Tx, session: Session, name: str) -> Agent:
    """Return the session's agent of this name.

    Raises:
        NotFound: there is none; the message gives the nearest names.
    """
    agent = await tx.agents.by_name(session.id, name)
    if agent is None:
        names = [other.name for other in await tx.agents.of_session(session.id)]
        raise NotFound(f"no agent {name!r} in session {session.name!r}{nearest(name, names)}")
    return agent


async def agent_by_reference(tx: Tx, principal: Principal, home: Session, reference: str) -> Agent:
    """Return the agent that `name` (in `home`) or `session:name` stands for.

    Raises:
        NotFound: there is none. Forbidden: the principal may not reach its session.
    """
    session_name, colon, name = reference.partition(":")
    if not colon or session_name == home.name:
        return await agent_of(tx, home, name if colon else reference)
    return await agent_of(tx, await session_of(tx, principal, session_name), name)


async def thread_of(tx: Tx, session: Session, thread_id: str) -> Thread:
    """Return the session's thread with this id, or its only open thread of this name.

    Raises:
        NotFound: there is none. Conflict: several open threads have this name.
    """
    thread = await tx.threads.get(ThreadId(thread_id))
    if thread is not None and thread.session_id == session.id and thread.status is not ThreadStatus.DIRECT:
        return thread
    threads = await tx.threads.of_session(session.id)
    named = [t for t in threads if t.name == thread_id]
    usable = [t for t in named if t.closed_at is None] or named[-1:]
    if len(usable) == 1:
        return usable[0]
    if usable:
        raise Conflict(f"{len(usable)} open threads are named {thread_id!r}; use the id")
    raise NotFound(
        f"no thread {thread_id!r} in session {session.name!r}{nearest(thread_id, [t.name for t in threads])}"
    )
