"""Find sessions, agents and threads by name or id, and suggest near names when there is none."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime

from circadia.agents.access import require_reach
from circadia.errors import Conflict, NotFound, TargetGone
from circadia.ids import SessionId, ThreadId
from circadia.records.agent import Agent
from circadia.records.principal import Principal
from circadia.records.session import DEFAULT_SESSION, Session, SessionStatus
from circadia.records.thread import Thread, ThreadStatus
from circadia.stores.base import Tx
from circadia.stores.locks import LockKey, agent_key, thread_key
from circadia.suggestions import did_you_mean

_NEVER = datetime.min.replace(tzinfo=UTC)


async def find_session(tx: Tx, principal: Principal, name: str, *, open_only: bool = False) -> Session:
    """Return the session of this name or id. Raises NotFound or Forbidden, or Conflict with `open_only`."""
    session = await tx.sessions.get_by_name(name) or await tx.sessions.get(SessionId(name))
    if session is None:
        hint = did_you_mean(name, await tx.sessions.names_near(name)) if principal.is_operator else ""
        if not principal.is_operator and principal.agent is not None:
            require_reach(principal, _stand_in_session(name))
        raise NotFound(f"no session {name!r}{hint}")
    require_reach(principal, session)
    if open_only and session.status is SessionStatus.CLOSED:
        raise Conflict(f"session {session.name!r} is closed; create another")
    return session


async def find_own_session(tx: Tx, principal: Principal) -> Session:
    """Return the session of the principal's bare names; `default` for the operator. Raises TargetGone: it is closed."""
    own = principal.agent
    session = await (tx.sessions.get_by_name(DEFAULT_SESSION) if own is None else tx.sessions.get(own.session_id))
    if session is None or session.status is SessionStatus.CLOSED:
        raise TargetGone(f"session {own.session if own else DEFAULT_SESSION!r} is closed")
    return session


def _stand_in_session(name: str) -> Session:
    """Return a stand-in, so that a foreign caller cannot distinguish a missing session from a forbidden one."""
    return Session(id=SessionId(""), name=name, status=SessionStatus.CLOSED, created_at=_NEVER, touched_at=_NEVER)


async def find_agent(tx: Tx, session: Session, name: str) -> Agent:
    """Return the session's agent with this name. Raises NotFound, which suggests near names."""
    agent = await tx.agents.get_by_name(session.id, name)
    if agent is None:
        names = await tx.agents.names_near(session.id, name)
        raise NotFound(f"no agent {name!r} in session {session.name!r}{did_you_mean(name, names)}")
    return agent


async def require_names(tx: Tx, principal: Principal, session: str | None, agent: str | None) -> None:
    """Check a list's filters: a session, and a name that one of its agents has or had. Raises NotFound."""
    home = None if session is None else await find_session(tx, principal, session)
    if agent is None or await tx.agents.find_by_past_name(None if home is None else home.name, agent):
        return
    if home is not None:
        await find_agent(tx, home, agent)
    raise NotFound(f"no session has an agent {agent!r}; `circadia agents --session` lists those of one")


async def find_agent_by_reference(tx: Tx, principal: Principal, home: Session, reference: str) -> Agent:
    """Return the agent for `name` (in `home`) or `session:name`. Raises NotFound or Forbidden."""
    session_name, colon, name = reference.partition(":")
    if not colon or session_name == home.name:
        return await find_agent(tx, home, name if colon else reference)
    return await find_agent(tx, await find_session(tx, principal, session_name), name)


async def hold_agents(tx: Tx, principal: Principal, home: Session, references: Iterable[str], *more: LockKey) -> None:
    """Hold the agents of these references, the principal's own and further keys, all at once.

    An unknown reference is left out: whoever looks for it next raises the error.
    """
    names: defaultdict[str, set[str]] = defaultdict(set)
    for reference in references:
        session_name, colon, name = reference.partition(":")
        names[session_name if colon else home.name].add(name if colon else reference)
    keys = [*more] if principal.agent is None else [agent_key(principal.agent.id), *more]
    for session_name, wanted in names.items():
        session = home if session_name == home.name else await tx.sessions.get_by_name(session_name)
        if session is not None:
            keys += [agent_key(agent_id) for agent_id in await tx.agents.find_ids(session.id, wanted)]
    await tx.hold(*keys)


async def lock_open_session(tx: Tx, session: Session) -> None:
    """Hold the session, so that it stays open until the end of the block. Raises Conflict if it is closed."""
    present = await tx.sessions.lock(session.id)
    if present is None or present.status is SessionStatus.CLOSED:
        raise Conflict(f"session {session.name!r} is closed; create another")


async def hold_readers(tx: Tx, session: Session, thread: str) -> None:
    """Hold an open thread, by id or name, and its participants, all at once: a message concerns them.

    Who joins until then is held later, by whoever sends.
    """
    readers = await tx.threads.find_readers(session.id, thread)
    threads = [thread_key(thread_id) for thread_id, _ in readers]
    await tx.hold(*threads, *(agent_key(agent_id) for _, agent_id in readers if agent_id is not None))


async def find_thread(tx: Tx, principal: Principal, session: Session, thread_id: str) -> Thread:
    """Return the session's thread with this id, or its only open thread with this name.

    Raises:
        NotFound: there is none; the message names threads that the principal takes part in. Conflict: several open
            threads have this name.
    """
    thread = await tx.threads.get(ThreadId(thread_id))
    if thread is not None and thread.session_id == session.id and thread.status is not ThreadStatus.DIRECT:
        return thread
    named = await tx.threads.find_by_name(session.id, thread_id)
    if len(named) > 1 and named[1].closed_at is None:
        raise Conflict(f"several open threads are named {thread_id!r}; use the id")
    if named:
        return named[0]
    own = principal.agent.id if principal.agent else None
    names = await tx.threads.names_near(session.id, thread_id, agent_id=own)
    raise NotFound(f"no thread {thread_id!r} in session {session.name!r}{did_you_mean(thread_id, names)}")
