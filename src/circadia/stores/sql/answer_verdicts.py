"""Verdicts of judges about ready answers."""

from collections.abc import Collection, Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, bindparam, delete, select

from circadia.ids import AnswerId, BankId
from circadia.records.answer import SameQuestionVerdict
from circadia.stores.sql.answer_tables import answer_verdicts, answers
from circadia.stores.sql.searchable import fetch_by_ids, select_by_ids
from circadia.stores.sql.statement import Statement
from circadia.stores.sql.upsert import Upsert

VERDICTS: Final = 20_000
"""Verdicts of a judge that are kept per bank, the newest: about 300 bytes each."""
_COLUMNS: Final = tuple(column.name for column in answer_verdicts.c)
_SAVE: Final = Statement(Upsert(answer_verdicts, keys=("id",), new=("same", "at")), _COLUMNS)
_IDENTIFIED: Final = select_by_ids(answer_verdicts)
_ANSWERS: Final = select_by_ids(answers, ("id", "bank_id", "dropped"))
_OF_BANK: Final = answer_verdicts.c.bank_id == bindparam("bank")
_LAST_KEPT: Final = (
    select(answer_verdicts.c.at).where(_OF_BANK).order_by(answer_verdicts.c.at.desc()).limit(1).offset(VERDICTS - 1)
)
_TRIM: Final = Statement(delete(answer_verdicts).where(_OF_BANK, answer_verdicts.c.at < _LAST_KEPT.scalar_subquery()))
_DELETE: Final = Statement(
    delete(answer_verdicts).where(answer_verdicts.c.answer_id == bindparam("answer")), ("answer",)
)  # fmt: skip


def save_verdicts(connection: Connection, verdicts: Sequence[SameQuestionVerdict]) -> None:
    rows = fetch_by_ids(connection, _ANSWERS, {verdict.answer_id for verdict in verdicts})
    live = {(row.bank_id, row.id) for row in rows if not row.dropped}
    live_verdicts = {verdict.id: verdict for verdict in verdicts if (verdict.bank_id, verdict.answer_id) in live}
    _SAVE.run_many(connection, [[getattr(verdict, name) for name in _COLUMNS] for verdict in live_verdicts.values()])
    for bank_id in {verdict.bank_id for verdict in live_verdicts.values()}:
        _TRIM.execute(connection, {"bank": bank_id})


def find_verdicts(connection: Connection, bank_id: BankId, ids: Collection[str]) -> Sequence[SameQuestionVerdict]:
    return [_verdict(row) for row in fetch_by_ids(connection, _IDENTIFIED, ids) if row.bank_id == bank_id]


def delete_verdicts(connection: Connection, answer_ids: Collection[str]) -> None:
    _DELETE.run_many(connection, [(answer_id,) for answer_id in answer_ids])


def _verdict(row: Row[Any]) -> SameQuestionVerdict:
    return SameQuestionVerdict(
        id=row.id, bank_id=BankId(row.bank_id), answer_id=AnswerId(row.answer_id), same=row.same, at=row.at
    )
