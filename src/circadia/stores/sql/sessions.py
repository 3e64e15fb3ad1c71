"""Session rows."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final

from sqlalchemy import and_, bindparam, exists, false, select, text, true, update

from circadia.errors import Conflict
from circadia.ids import SessionId
from circadia.records.session import Session, SessionStatus
from circadia.stores.locks import session_key
from circadia.stores.sql.link import Runner
from circadia.stores.sql.noun import NamesNear, Noun
from circadia.stores.sql.row_mapping import build_reader, build_writer
from circadia.stores.sql.schema import agents, sessions
from circadia.stores.sql.statement import Statement
from circadia.stores.sql.upsert import Upsert

_read_session = build_reader(Session)
_FIELDS: Final = tuple(column.name for column in sessions.c)
_write_session = build_writer(_FIELDS)
_ADD = Statement(Upsert(sessions), _FIELDS)
_SELECT = Statement(select(sessions).where(sessions.c.id == bindparam("key")), read=_read_session)
_SELECT_BY_NAME = Statement(
    select(sessions)
    .where(sessions.c.name == bindparam("key"))
    .order_by(sessions.c.status != SessionStatus.OPEN.value, sessions.c.closed_at.desc(), sessions.c.id.desc())
    .limit(1),
    read=_read_session,
)
_ALL = select(sessions).order_by(sessions.c.id)
_OPEN = _ALL.where(text("sessions.status = 'open'"))  # the form of the index `sessions_open`
_NAMES = NamesNear(select(sessions).where(sessions.c.status == SessionStatus.OPEN.value), sessions.c.name)
_TOUCH = Statement(
    update(sessions)
    .where(sessions.c.id == bindparam("key"), sessions.c.touched_at < bindparam("at"))
    .values(touched_at=bindparam("at"), stalled=false()),
    ("at", "key"),
)
_STATE: Final = ("status", "closed_at", "touched_at", "stalled")
_write_state = build_writer((*_STATE, "id"))
_SAVE = Statement(
    update(sessions)
    .where(sessions.c.id == bindparam("key"))
    .values({name: bindparam(f"new_{name}") for name in _STATE}),
    [*(f"new_{name}" for name in _STATE), "key"],
)
_MARK_STALLED = Statement(
    update(sessions)
    .where(
        sessions.c.id == bindparam("key"), sessions.c.status == SessionStatus.OPEN.value, sessions.c.stalled.is_(False)
    )
    .values(stalled=true())
)
_MEMBERS = and_(agents.c.session_id == sessions.c.id, agents.c.deleted_at.is_(None))
_SELECT_SILENT = Statement(
    _OPEN.where(
        sessions.c.stalled.is_(False),
        sessions.c.touched_at <= bindparam("before"),
        exists().where(_MEMBERS),
        ~exists().where(_MEMBERS, text("NOT agents.asleep")),  # the form of the index `agents_awake`
    ),
    read=_read_session,
)


class Sessions(Noun):
    """Access to sessions."""

    def __init__(self, runner: Runner, touch: Callable[[SessionId, datetime], None]) -> None:
        super().__init__(runner)
        self._touch = touch

    async def add(self, session: Session) -> None:
        """Store a new session. Raises Conflict if an open session has its name."""
        if not await self._write(_ADD, _write_session(session)):
            raise Conflict(f"a session named {session.name!r} is open; close it first, or take another name")

    async def get(self, session_id: SessionId) -> Session | None:
        return await self._first(_SELECT, {"key": session_id})

    async def lock(self, session_id: SessionId) -> Session | None:
        """Return the session, which nobody else closes or adds to until the end of the block."""
        await self._hold(session_key(session_id))
        return await self.get(session_id)

    async def get_by_name(self, name: str) -> Session | None:
        """Return the open session of this name, else the last closed one."""
        return await self._first(_SELECT_BY_NAME, {"key": name})

    async def names_near(self, name: str) -> Sequence[str]:
        """Return a few names that are alphabetically near this one."""
        return await self._run(lambda connection: _NAMES.find(connection, name, {}))

    async def find_all(
        self, *, closed: bool = False, after: SessionId | None = None, limit: int | None = None
    ) -> Sequence[Session]:
        """Return open sessions, or all with `closed`, by id, oldest first."""
        statement = (_ALL if closed else _OPEN).where(sessions.c.id > (after or "")).limit(limit)
        return await self._select(statement, _read_session)

    async def save(self, session: Session) -> None:
        """Write status, closed_at, touched_at and stalled."""
        await self._hold(session_key(session.id))
        await self._write(_SAVE, _write_state(session))

    async def mark_stalled(self, session_id: SessionId) -> bool:
        """Mark an open session as stalled; return whether it was not."""
        return await self._execute(_MARK_STALLED, {"key": session_id}) == 1

    async def touch(self, session_id: SessionId, at: datetime) -> None:
        """Set touched_at and reset stalled once this block is committed and `Store.save_touches` has run."""
        self._touch(session_id, at)

    async def save_touches(self, touches: Mapping[SessionId, datetime]) -> None:
        """Set touched_at where it is later, and reset stalled there."""
        rows = [(at, session_id) for session_id, at in sorted(touches.items())]
        await self._run(lambda connection: _TOUCH.run_many(connection, rows))

    async def find_silent_since(self, before: datetime) -> Sequence[Session]:
        """Return open, unreported sessions whose agents (at least one) all sleep, untouched since `before`."""
        return await self._all(_SELECT_SILENT, {"before": before}, single="read")
