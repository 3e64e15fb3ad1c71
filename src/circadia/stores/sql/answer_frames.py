"""Frames of ready answers: the scopes in which calls came, and the templates for their questions."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Row, bindparam, delete, select

from circadia.ids import AgentId, BankId
from circadia.records.answer import AnswerFrame, AnswerScope
from circadia.stores.locks import bank_key
from circadia.stores.sql.answer_tables import answer_frames
from circadia.stores.sql.answer_uses import find_existing_banks, is_storable, scope_of
from circadia.stores.sql.noun import Noun
from circadia.stores.sql.row_mapping import build_reader, build_writer
from circadia.stores.sql.statement import Statement
from circadia.stores.sql.upsert import Upsert

_COLUMNS: Final = tuple(column.name for column in answer_frames.c)
_SCOPE: Final = ("agent_id", "end_user", "frame")
_KEYS: Final = ("bank_id", *_SCOPE)
MAX_SCOPES: Final = 1_000
"""Scopes of a bank that are read, about 300 bytes each."""


class RecentScope(NamedTuple):
    """A scope in which a call came, without the frame's body, which may be long."""

    scope: AnswerScope
    at: datetime
    """Time of the last call."""
    asked: int
    why_not: str

    @property
    def is_open(self) -> bool:
        """Whether questions are asked ahead in it."""
        return self.asked > 0 and not self.why_not


def _read_scope(row: Row[Any]) -> RecentScope:
    return RecentScope(scope_of(row), row.at, row.asked, row.why_not)


_read_frame = build_reader(
    AnswerFrame, of_row={"scope": scope_of}, headers=lambda stored: tuple((name, value) for name, value in stored)
)
_write_frame = build_writer(
    _COLUMNS,
    headers=lambda frame: list(map(list, frame.headers)),
    agent_id=lambda frame: frame.scope.agent_id,
    end_user=lambda frame: frame.scope.end_user,
    frame=lambda frame: frame.scope.frame,
)
_SAVE: Final = Statement(
    Upsert(
        answer_frames, keys=_KEYS, new=[name for name in _COLUMNS if name not in (*_KEYS, "asked")], more=("asked",)
    ),
    _COLUMNS,
)
_PERSON: Final = tuple(f"of_{name}" for name in _KEYS[:-1])
_KEY: Final = [answer_frames.c[name] == bindparam(f"of_{name}") for name in _KEYS]
_SCOPES: Final = select(*(answer_frames.c[name] for name in (*_SCOPE, "at", "asked", "why_not")))
_SELECT_RECENT: Final = Statement(
    _SCOPES.where(answer_frames.c.bank_id == bindparam("bank"))
    .order_by(answer_frames.c.at.desc())
    .limit(bindparam("most")),
    read=_read_scope,
)
_SELECT_OF_PERSON: Final = Statement(_SCOPES.where(*_KEY[:-1]), read=_read_scope)
_SELECT_TIMES: Final = Statement(select(answer_frames.c.at, answer_frames.c.frame).where(*_KEY[:-1]))
_SELECT: Final = Statement(select(answer_frames).where(*_KEY), read=_read_frame)
_DELETE: Final = Statement(delete(answer_frames).where(*_KEY), [f"of_{name}" for name in _KEYS])
MAX_FRAMES: Final = 8
"""Frames kept per agent and end user. It bounds callers whose prompt differs from call to call."""


class AnswerFrames(Noun):
    """Scopes in which calls came, and the templates for their questions."""

    async def save_frames(self, frames: Sequence[AnswerFrame]) -> None:
        """Insert or overwrite frames by bank and scope, adding up `asked`.

        Frames of deleted banks are skipped, and texts that no database can store. The last `MAX_FRAMES` of each agent
        and end user are kept.
        """
        await self._hold(*(bank_key(frame.bank_id) for frame in frames))
        if frames:
            await self._run(lambda connection: _save_frames(connection, frames))

    async def find_recent_scopes(self, bank_id: BankId, *, limit: int = MAX_SCOPES) -> Sequence[RecentScope]:
        """Return the bank's scopes, most recently called first."""
        return await self._all(_SELECT_RECENT, {"bank": bank_id, "most": limit})

    async def find_scopes(self, bank_id: BankId, agent_id: AgentId, end_user: str) -> Sequence[RecentScope]:
        """Return the scopes in which this person asked this agent."""
        return await self._all(_SELECT_OF_PERSON, dict(zip(_PERSON, (bank_id, agent_id, end_user), strict=True)))

    async def get_frame(self, bank_id: BankId, scope: AnswerScope) -> AnswerFrame | None:
        key = {"of_bank_id": bank_id, **{f"of_{name}": getattr(scope, name) for name in _SCOPE}}
        return await self._first(_SELECT, key)


def _save_frames(connection: Connection, frames: Sequence[AnswerFrame]) -> None:
    known = find_existing_banks(connection, [frame.bank_id for frame in frames])
    storable = [
        frame
        for frame in frames
        if frame.bank_id in known
        and is_storable(frame.target, frame.model, frame.body, *(part for header in frame.headers for part in header))
    ]
    _SAVE.run_many(connection, [_write_frame(frame) for frame in storable])
    surplus: list[tuple[str, ...]] = []
    for person in {(frame.bank_id, frame.scope.agent_id, frame.scope.end_user) for frame in storable}:
        rows = _SELECT_TIMES.all(connection, dict(zip(_PERSON, person, strict=True)))
        rows.sort(key=lambda row: (row.at, row.frame), reverse=True)
        surplus += [(*person, row.frame) for row in rows[MAX_FRAMES:]]
    _DELETE.run_many(connection, surplus)
