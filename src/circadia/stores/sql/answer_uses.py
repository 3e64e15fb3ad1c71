"""Uses of ready answers, and daily counts."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, Final

from sqlalchemy import Boolean, Connection, Row, bindparam, or_, select, update

from circadia.ids import AgentId, AnswerId, BankId
from circadia.records.answer import AnswerDay, AnswerScope, AnswerUse
from circadia.stores.sql.answer_tables import answer_days, answer_uses, answers
from circadia.stores.sql.benefits import day_of, number_of
from circadia.stores.sql.memory_tables import banks
from circadia.stores.sql.searchable import fetch_by_ids, select_by_ids
from circadia.stores.sql.statement import Statement
from circadia.stores.sql.upsert import Upsert

_COLUMNS: Final = tuple(column.name for column in answer_uses.c)
_ADD: Final = Statement(Upsert(answer_uses), _COLUMNS)
_IDENTIFIED: Final = select_by_ids(answer_uses)
_ANSWERS: Final = select_by_ids(answers, ("id", "bank_id", "uses", "used_at", "touched_at", "dropped"))
_BANKS: Final = select_by_ids(banks, ("id",))
_USED: Final = Statement(
    update(answers)
    .where(answers.c.id == bindparam("of_id"))
    .values({name: bindparam(f"new_{name}") for name in ("uses", "used_at", "touched_at")}),
    ("of_id", "new_uses", "new_used_at", "new_touched_at"),
)
_OF_BANK: Final = (
    select(answer_uses)
    .where(
        answer_uses.c.bank_id == bindparam("bank"),
        answer_uses.c.judged == bindparam("looked_at"),
        answer_uses.c.at <= bindparam("upto"),
        or_(answer_uses.c.right.is_not(None), bindparam("untold", type_=Boolean)),
    )
    .order_by(answer_uses.c.id.desc())
    .limit(bindparam("most"))
)
_USES: Final = Statement(_OF_BANK)
_USES_OF_AGENT: Final = Statement(_OF_BANK.where(answer_uses.c.agent_id == bindparam("agent")))
_JUDGE: Final = Statement(
    update(answer_uses)
    .where(answer_uses.c.id == bindparam("of_id"), answer_uses.c.bank_id == bindparam("bank"))
    .values(judged=bindparam("looked_at"), right=bindparam("new_right"), judged_at=bindparam("now"))
)
_COUNTS: Final = tuple(column.name for column in answer_days.c if column.name not in ("bank_id", "day"))
_COUNT: Final = Statement(
    Upsert(answer_days, keys=("bank_id", "day"), more=_COUNTS), [column.name for column in answer_days.c]
)
_DAYS: Final = Statement(
    select(answer_days)
    .where(answer_days.c.bank_id == bindparam("bank"), answer_days.c.day >= bindparam("since"))
    .order_by(answer_days.c.day)
)


_EVER: Final = datetime(9999, 1, 1, tzinfo=UTC)


def is_storable(*texts: str) -> bool:
    """Return whether both databases can store these texts: PostgreSQL rejects NUL, and neither a lone surrogate."""
    return not any("\0" in text or any("\ud800" <= part <= "\udfff" for part in text) for text in texts)


def find_existing_banks(connection: Connection, ids: Collection[BankId]) -> Collection[str]:
    """Return the banks that exist: deferred writes may arrive after a bank's deletion."""
    return {row.id for row in fetch_by_ids(connection, _BANKS, set(ids))}


def record_uses(connection: Connection, uses: Sequence[AnswerUse]) -> Collection[AnswerId]:
    known = {row.id: row for row in fetch_by_ids(connection, _ANSWERS, {use.answer_id for use in uses})}
    written = {row.id for row in fetch_by_ids(connection, _IDENTIFIED, {use.id for use in uses})}
    new: dict[str, AnswerUse] = {}
    for use in uses:
        answer = known.get(use.answer_id)
        if answer is not None and answer.bank_id == use.bank_id and is_storable(use.question, use.phrasing):
            new.setdefault(use.id, use)
    fresh = [use for use in new.values() if use.id not in written]
    _ADD.run_many(connection, [list(_values(use).values()) for use in fresh])
    times: dict[AnswerId, list[datetime]] = {}
    for use in fresh:
        if not known[use.answer_id].dropped:  # else it was counted when it was dropped
            times.setdefault(use.answer_id, []).append(use.at)
    rows: list[Sequence[object]] = []
    for answer_id, at in times.items():
        row = known[answer_id]
        last = max(at)
        used_at = last if row.used_at is None else max(row.used_at, last)
        rows.append((answer_id, row.uses + len(at), used_at, max(row.touched_at, last)))
    _USED.run_many(connection, rows)
    return [answer_id for answer_id in times if not known[answer_id].uses]


def find_uses(
    connection: Connection, bank_id: BankId, agent_id: AgentId | None, judged: bool | None, upto: datetime | None,
    limit: int,
) -> list[AnswerUse]:  # fmt: skip
    statement = _USES if agent_id is None else _USES_OF_AGENT
    values = {"bank": bank_id, "agent": agent_id, "most": limit, "untold": not judged, "upto": upto or _EVER}
    kinds = (True, False) if judged is None else (judged,)
    rows = [row for kind in kinds for row in statement.all(connection, {**values, "looked_at": kind})]
    rows.sort(key=lambda row: row.id, reverse=True)
    return [_use(row) for row in rows[:limit]]


def save_judgment(connection: Connection, bank_id: BankId, use_id: str, right: bool | None, at: datetime) -> None:
    values = {"of_id": use_id, "bank": bank_id, "looked_at": True, "new_right": right, "now": at}
    _JUDGE.execute(connection, values)


def add_counts(connection: Connection, days: Sequence[AnswerDay]) -> None:
    known = find_existing_banks(connection, [day.bank_id for day in days])
    rows = [
        (day.bank_id, number_of(day.day), *(getattr(day, name) for name in _COUNTS))
        for day in days
        if day.bank_id in known
    ]
    _COUNT.run_many(connection, rows)


def find_days(connection: Connection, bank_id: BankId, since: date) -> list[AnswerDay]:
    rows = _DAYS.all(connection, {"bank": bank_id, "since": number_of(since)})
    return [
        AnswerDay(bank_id=BankId(row.bank_id), day=day_of(row.day), **{name: getattr(row, name) for name in _COUNTS})
        for row in rows
    ]


def scope_of(row: Row[Any]) -> AnswerScope:
    return AnswerScope(agent_id=AgentId(row.agent_id), end_user=row.end_user, frame=row.frame)


def _values(use: AnswerUse) -> Mapping[str, object]:
    known = {"judged": use.right is not None}
    return {name: _value(use, name) if name not in known else known[name] for name in _COLUMNS}


def _value(use: AnswerUse, name: str) -> object:
    return getattr(use.scope if name in ("agent_id", "end_user", "frame") else use, name)


def _use(row: Row[Any]) -> AnswerUse:
    return AnswerUse(
        id=row.id,
        bank_id=BankId(row.bank_id),
        answer_id=AnswerId(row.answer_id),
        scope=scope_of(row),
        question=row.question,
        phrasing=row.phrasing,
        way=row.way,
        served=row.served,
        at=row.at,
        right=row.right,
        judged_at=row.judged_at,
    )
