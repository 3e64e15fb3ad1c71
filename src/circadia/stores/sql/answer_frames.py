"""Frames of ready answers: the scopes in which calls came, and the templates for their questions."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Row, bindparam, delete, select

from circadia.ids import AgentId, BankId
from circadia.records.answer import AnswerFrame, AnswerScope
from circadia.stores.sql.answer_tables import answer_frames
from circadia.stores.sql.answer_uses import find_existing_banks, is_storable, scope_of
from circadia.stores.sql.statement import Statement
from circadia.stores.sql.upsert import Upsert

_COLUMNS: Final = tuple(column.name for column in answer_frames.c)
_SCOPE: Final = ("agent_id", "end_user", "frame")
_KEYS: Final = ("bank_id", *_SCOPE)
_SEE: Final = Statement(
    Upsert(
        answer_frames, keys=_KEYS, new=[name for name in _COLUMNS if name not in (*_KEYS, "asked")], more=("asked",)
    ),
    _COLUMNS,
)
_PERSON: Final = tuple(f"of_{name}" for name in _KEYS[:-1])
_KEY: Final = [answer_frames.c[name] == bindparam(f"of_{name}") for name in _KEYS]
_SCOPES: Final = select(*(answer_frames.c[name] for name in _SCOPE))
_SEEN: Final = Statement(
    _SCOPES.add_columns(answer_frames.c.at)
    .where(answer_frames.c.bank_id == bindparam("bank"))
    .order_by(answer_frames.c.at.desc())
    .limit(bindparam("most"))
)
_OF_PERSON: Final = Statement(_SCOPES.where(*_KEY[:-1]))
_TIMES: Final = Statement(select(answer_frames.c.at, answer_frames.c.frame).where(*_KEY[:-1]))
_ONE: Final = Statement(select(answer_frames).where(*_KEY))
_DROP: Final = Statement(delete(answer_frames).where(*_KEY), [f"of_{name}" for name in _KEYS])
FRAMES: Final = 8
"""Frames kept per agent and end user. It bounds callers whose prompt differs from call to call."""


class RecentScope(NamedTuple):
    """A scope in which a call came, without the frame, which may be long."""

    scope: AnswerScope
    at: datetime
    """Time of the last call."""


def save_frames(connection: Connection, frames: Sequence[AnswerFrame]) -> None:
    known = find_existing_banks(connection, [frame.bank_id for frame in frames])
    storable = [
        frame
        for frame in frames
        if frame.bank_id in known
        and is_storable(frame.target, frame.model, frame.body, *(part for header in frame.headers for part in header))
    ]
    _SEE.run_many(connection, [[_column_value(frame, name) for name in _COLUMNS] for frame in storable])
    surplus: list[tuple[str, ...]] = []
    for person in {(frame.bank_id, frame.scope.agent_id, frame.scope.end_user) for frame in storable}:
        rows = _TIMES.all(connection, dict(zip(_PERSON, person, strict=True)))
        rows.sort(key=lambda row: (row.at, row.frame), reverse=True)
        surplus += [(*person, row.frame) for row in rows[FRAMES:]]
    _DROP.run_many(connection, surplus)


def find_recent_scopes(connection: Connection, bank_id: BankId, limit: int) -> list[RecentScope]:
    return [RecentScope(scope_of(row), row.at) for row in _SEEN.all(connection, {"bank": bank_id, "most": limit})]


def find_scopes(connection: Connection, bank_id: BankId, agent_id: AgentId, end_user: str) -> list[AnswerScope]:
    person = dict(zip(_PERSON, (bank_id, agent_id, end_user), strict=True))
    return [scope_of(row) for row in _OF_PERSON.all(connection, person)]


def get_frame(connection: Connection, bank_id: BankId, scope: AnswerScope) -> AnswerFrame | None:
    key = {"of_bank_id": bank_id, **{f"of_{name}": getattr(scope, name) for name in _SCOPE}}
    row = _ONE.first(connection, key)
    return None if row is None else _frame(row)


def _column_value(frame: AnswerFrame, name: str) -> object:
    if name == "headers":
        return list(map(list, frame.headers))
    return getattr(frame.scope if name in _SCOPE else frame, name)


def _frame(row: Row[Any]) -> AnswerFrame:
    return AnswerFrame(
        bank_id=BankId(row.bank_id),
        scope=scope_of(row),
        upstream=row.upstream,
        target=row.target,
        dialect=row.dialect,
        model=row.model,
        body=row.body,
        headers=tuple((name, value) for name, value in row.headers),
        at=row.at,
        asked=row.asked,
    )
