"""Rows of threads and their participants."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final

from sqlalchemy import ColumnElement, Connection, bindparam, exists, func, or_, select, text, update

from circadia.errors import Conflict
from circadia.ids import AgentId, SessionId, ThreadId
from circadia.records.thread import JoinResult, Participant, Thread, ThreadStatus
from circadia.stores.locks import agent_key, thread_key
from circadia.stores.sql.noun import NamesNear, Noun
from circadia.stores.sql.row_mapping import build_reader, build_writer
from circadia.stores.sql.schema import agents, participants, threads
from circadia.stores.sql.statement import Statement
from circadia.stores.sql.upsert import Upsert

_read_thread = build_reader(Thread)
_read_participant = build_reader(Participant, of_row={"listens": lambda row: row.wake_on is not None})
_FIELDS: Final = tuple(column.name for column in threads.c)
_write_thread = build_writer(_FIELDS)
_write_end = build_writer(("status", "closed_at", "summary", "id"))
_ADD = Statement(Upsert(threads), _FIELDS)
_JOIN = Statement(
    Upsert(participants, keys=("agent_id", "thread_id"), new=("active", "added_at")),
    [column.name for column in participants.c],
)
_SELECT = Statement(select(threads).where(threads.c.id == bindparam("key")), read=_read_thread)
_OF_SESSION = select(threads).where(threads.c.session_id == bindparam("session_id"))
_IS_OPEN = text("threads.status = 'open'")  # the form of the index `threads_open`
_IS_NAMED = text("threads.status <> 'direct'")  # that of `threads_named`
_SELECT_BY_NAME = Statement(
    select(threads)
    .where(
        threads.c.session_id == bindparam("session_id"),
        threads.c.name == bindparam("name"),
        threads.c.status != ThreadStatus.DIRECT.value,
    )
    .order_by(threads.c.closed_at.is_not(None), threads.c.created_at.desc(), threads.c.id.desc())
    .limit(2),
    read=_read_thread,
)
_SELECT_READERS = Statement(
    select(threads.c.id, participants.c.agent_id)
    .outerjoin(participants, (participants.c.thread_id == threads.c.id) & participants.c.active.is_(True))
    .where(
        threads.c.session_id == bindparam("session_id"),
        or_(threads.c.id == bindparam("name"), threads.c.name == bindparam("name")),
        threads.c.closed_at.is_(None),
    )
)
_COUNT_OPEN_BY = Statement(
    select(func.count()).where(
        threads.c.session_id == bindparam("session_id"),
        threads.c.created_by == bindparam("created_by"),
        threads.c.status == ThreadStatus.OPEN.value,
    )
)
_NAMES = NamesNear(
    select(threads).where(
        threads.c.session_id == bindparam("session_id"), threads.c.status != ThreadStatus.DIRECT.value
    ),
    threads.c.name,
)
_OWN_NAMES = NamesNear(
    select(threads)
    .join(participants)
    .where(
        threads.c.session_id == bindparam("session_id"),
        threads.c.status != ThreadStatus.DIRECT.value,
        participants.c.agent_id == bindparam("agent_id"),
        participants.c.active.is_(True),
    ),
    threads.c.name,
)
_CLOSE = Statement(
    update(threads)
    .where(threads.c.id == bindparam("key"), threads.c.status == ThreadStatus.OPEN.value)
    .values(status=bindparam("new_status"), closed_at=bindparam("new_closed_at"), summary=bindparam("new_summary")),
    ("new_status", "new_closed_at", "new_summary", "key"),
)
_SELECT_ACTIVE = Statement(
    select(participants.c.active).where(
        participants.c.thread_id == bindparam("thread_id"), participants.c.agent_id == bindparam("agent_id")
    )
)
_WAS_IN_SESSION = Statement(
    select(
        exists()
        .where(participants.c.agent_id == bindparam("agent_id"), participants.c.thread_id == threads.c.id)
        .where(
            threads.c.session_id
            == select(threads.c.session_id).where(threads.c.id == bindparam("thread_id")).scalar_subquery()
        )
    )
)
_LEAVE = Statement(
    update(participants)
    .where(
        participants.c.thread_id == bindparam("thread"),
        participants.c.agent_id == bindparam("agent"),
        participants.c.active.is_(True),
    )
    .values(active=False)
)
_SELECT_PARTICIPANTS = Statement(
    select(participants, agents.c.name, agents.c.wake_on)
    .join(agents)
    .where(
        participants.c.thread_id == bindparam("thread_id"),
        participants.c.active.is_(True),
        agents.c.deleted_at.is_(None),
    ),
    read=_read_participant,
)
_NAMES_OF_THREADS = (
    select(participants.c.thread_id, agents.c.name)
    .join(agents)
    .where(
        participants.c.thread_id.in_(bindparam("thread_ids", expanding=True)),
        participants.c.active.is_(True),
        agents.c.deleted_at.is_(None),
    )
)
_COUNT_OPEN_OF_AGENT = Statement(
    select(func.count())
    .select_from(participants)
    .join(threads)
    .where(
        participants.c.agent_id == bindparam("agent_id"),
        participants.c.active.is_(True),
        threads.c.status == ThreadStatus.OPEN.value,
    )
)


class Threads(Noun):
    """Access to threads and their participants."""

    async def add(self, thread: Thread) -> None:
        """Store a new thread. Raises Conflict if its id exists."""
        if not await self._write(_ADD, _write_thread(thread)):
            raise Conflict(f"there is a thread {thread.id!r} already")

    async def get(self, thread_id: ThreadId) -> Thread | None:
        key = {"key": thread_id}
        thread = await self._first(_SELECT, key)
        # Direct messages of a session share a thread that never changes.
        is_direct = thread is None or thread.status is ThreadStatus.DIRECT
        return await self._first(_SELECT, key) if not is_direct and await self._hold(thread_key(thread_id)) else thread

    async def find_by_session(
        self,
        session_id: SessionId,
        *,
        agent_id: AgentId | None = None,
        closed: bool = True,
        after: ThreadId | None = None,
        limit: int | None = None,
    ) -> Sequence[Thread]:
        """Return threads by id, oldest first; with `agent_id` only those it takes part in now."""
        statement = _OF_SESSION.where(_IS_NAMED if closed else _IS_OPEN)
        key: ColumnElement[str] = threads.c.id
        if agent_id is not None:
            key = participants.c.thread_id if closed else key  # of all its threads, or of the open ones of the session
            statement = statement.join(participants).where(
                participants.c.agent_id == agent_id, participants.c.active.is_(True)
            )
        if after is not None:
            statement = statement.where(key > after)
        statement = statement.order_by(key).limit(limit)
        values = {"session_id": session_id}
        return await self._select(statement, _read_thread, values, short=False)

    async def find_by_name(self, session_id: SessionId, name: str) -> Sequence[Thread]:
        """Return up to two threads of this name, open ones first, then the newest."""
        values = {"session_id": session_id, "name": name}
        found = await self._fetch_held(
            lambda connection: _SELECT_BY_NAME.all(connection, values) or None, lambda found: thread_key(found[0].id)
        )
        return found or ()

    async def find_readers(self, session_id: SessionId, name: str) -> Sequence[tuple[ThreadId, AgentId | None]]:
        """Return open threads with this name or id and each participant, or None, without holding them."""
        rows = await self._all(_SELECT_READERS, {"session_id": session_id, "name": name})
        return [(ThreadId(row.id), None if row.agent_id is None else AgentId(row.agent_id)) for row in rows]

    async def names_near(self, session_id: SessionId, name: str, *, agent_id: AgentId | None = None) -> Sequence[str]:
        """Return a few names alphabetically near this one; with `agent_id` from threads it takes part in now."""
        values = {"session_id": session_id, "agent_id": agent_id}
        if agent_id is None:
            return await self._run(lambda connection: _NAMES.find(connection, name, values))
        return await self._run(lambda connection: _OWN_NAMES.find(connection, name, values), short=False)

    async def count_open_by(self, session_id: SessionId, created_by: str) -> int:
        """Return the number of open threads in the session that `created_by` opened."""
        return await self._scalar(_COUNT_OPEN_BY, {"session_id": session_id, "created_by": created_by}, short=False)

    async def close(self, thread: Thread) -> bool:
        """Write status, closed_at and summary if the thread is open; return whether it was."""
        await self._hold(thread_key(thread.id))
        return await self._write(_CLOSE, _write_end(thread)) == 1

    async def join(self, thread_id: ThreadId, agent_id: AgentId, at: datetime) -> JoinResult:
        await self._hold(thread_key(thread_id), agent_key(agent_id))
        return await self._run(lambda connection: _join(connection, thread_id, agent_id, at))

    async def leave(self, thread_id: ThreadId, agent_id: AgentId) -> bool:
        """End the agent's participation; return whether it took part."""
        await self._hold(thread_key(thread_id), agent_key(agent_id))
        return await self._execute(_LEAVE, {"thread": thread_id, "agent": agent_id}) == 1

    async def participants(self, thread_id: ThreadId) -> Sequence[Participant]:
        """Return active participants by name, without deleted agents."""
        await self._hold(thread_key(thread_id))
        present = await self._all(_SELECT_PARTICIPANTS, {"thread_id": thread_id})
        return sorted(present, key=lambda participant: participant.name)

    async def find_participant_names(self, thread_ids: Collection[ThreadId]) -> Mapping[ThreadId, Sequence[str]]:
        """Return the names of the active participants of each thread, sorted, without deleted agents."""
        names: dict[ThreadId, list[str]] = {thread_id: [] for thread_id in thread_ids}
        values = {"thread_ids": list(names)}
        for row in await self._run(lambda connection: connection.execute(_NAMES_OF_THREADS, values).all()):
            names[ThreadId(row.thread_id)].append(row.name)
        return {thread_id: sorted(of_thread) for thread_id, of_thread in names.items()}

    async def count_open_of_agent(self, agent_id: AgentId) -> int:
        await self._hold(agent_key(agent_id))
        return await self._scalar(_COUNT_OPEN_OF_AGENT, {"agent_id": agent_id}, short=False)


def _join(connection: Connection, thread_id: ThreadId, agent_id: AgentId, at: datetime) -> JoinResult:
    key = {"thread_id": thread_id, "agent_id": agent_id}
    active = _SELECT_ACTIVE.scalar(connection, key)
    if active:
        return JoinResult(added=False, first_ever=False, first_in_thread=False)
    first_in_thread = active is None
    first_ever = first_in_thread and not _WAS_IN_SESSION.scalar(connection, key)
    _JOIN.execute(connection, {**key, "active": True, "added_at": at})
    return JoinResult(added=True, first_ever=first_ever, first_in_thread=first_in_thread)
