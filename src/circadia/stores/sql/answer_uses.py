"""Uses of ready answers, verdicts of judges about them, and daily counts."""

from collections.abc import Collection, Sequence
from datetime import UTC, date, datetime
from typing import Any, Final

from sqlalchemy import Boolean, Connection, Row, bindparam, delete, or_, select, update

from circadia.ids import AgentId, AnswerId, BankId
from circadia.records.answer import AnswerDay, AnswerScope, AnswerUse, MatchKind, SameQuestionVerdict
from circadia.stores.locks import bank_key
from circadia.stores.sql.answer_tables import answer_days, answer_uses, answer_verdicts, answers
from circadia.stores.sql.memory_tables import banks
from circadia.stores.sql.noun import Noun
from circadia.stores.sql.row_mapping import build_reader, build_writer
from circadia.stores.sql.schema import day_of, number_of
from circadia.stores.sql.searchable import fetch_by_ids, select_by_ids
from circadia.stores.sql.statement import Statement
from circadia.stores.sql.upsert import Upsert


def scope_of(row: Row[Any]) -> AnswerScope:
    return AnswerScope(agent_id=AgentId(row.agent_id), end_user=row.end_user, frame=row.frame)


_COLUMNS: Final = tuple(column.name for column in answer_uses.c)
_KINDS: Final = {kind.value: kind for kind in MatchKind}
"""Rows of early versions have a word for similar ones that is known no more."""
_read_use = build_reader(
    AnswerUse, of_row={"scope": scope_of, "match_kind": lambda row: _KINDS.get(row.way, MatchKind.SIMILAR)}
)
_write_use = build_writer(
    _COLUMNS,
    way=lambda use: use.match_kind.value,
    judged=lambda use: use.right is not None,
    agent_id=lambda use: use.scope.agent_id,
    end_user=lambda use: use.scope.end_user,
    frame=lambda use: use.scope.frame,
)
_ADD: Final = Statement(Upsert(answer_uses), _COLUMNS)
_SELECT_IDS: Final = Statement(select_by_ids(answer_uses, ("id",)))
_SELECT_ANSWERS: Final = Statement(
    select_by_ids(answers, ("id", "bank_id", "uses", "used_at", "touched_at", "dropped"))
)
_SELECT_BANKS: Final = Statement(select_by_ids(banks, ("id",)))
_COUNT_USES: Final = Statement(
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
_SELECT_USES: Final = Statement(_OF_BANK, read=_read_use)
_SELECT_USES_OF_AGENT: Final = Statement(_OF_BANK.where(answer_uses.c.agent_id == bindparam("agent")), read=_read_use)
_SAVE_JUDGMENT: Final = Statement(
    update(answer_uses)
    .where(answer_uses.c.id == bindparam("of_id"), answer_uses.c.bank_id == bindparam("bank"))
    .values(judged=bindparam("looked_at"), right=bindparam("new_right"), judged_at=bindparam("now"))
)
_read_day = build_reader(AnswerDay, day=day_of)
_write_day = build_writer([column.name for column in answer_days.c], day=lambda day: number_of(day.day))
_COUNTS: Final = tuple(column.name for column in answer_days.c if column.name not in ("bank_id", "day"))
_ADD_DAYS: Final = Statement(
    Upsert(answer_days, keys=("bank_id", "day"), more=_COUNTS), [column.name for column in answer_days.c]
)
_SELECT_DAYS: Final = Statement(
    select(answer_days)
    .where(answer_days.c.bank_id == bindparam("bank"), answer_days.c.day >= bindparam("since"))
    .order_by(answer_days.c.day),
    read=_read_day,
)


_NO_END: Final = datetime(9999, 1, 1, tzinfo=UTC)
MAX_VERDICTS: Final = 20_000
"""Verdicts of a judge that are kept per bank, the newest: about 300 bytes each."""
_VERDICT_COLUMNS: Final = tuple(column.name for column in answer_verdicts.c)
_write_verdict = build_writer(_VERDICT_COLUMNS)
_SAVE_VERDICTS: Final = Statement(Upsert(answer_verdicts, keys=("id",), new=("same", "at")), _VERDICT_COLUMNS)
_SELECT_VERDICTS: Final = Statement(select_by_ids(answer_verdicts), read=build_reader(SameQuestionVerdict))
_VERDICTS_OF_BANK: Final = answer_verdicts.c.bank_id == bindparam("bank")
_LAST_VERDICT: Final = (
    select(answer_verdicts.c.at)
    .where(_VERDICTS_OF_BANK)
    .order_by(answer_verdicts.c.at.desc())
    .limit(1)
    .offset(MAX_VERDICTS - 1)
)
_TRIM_VERDICTS: Final = Statement(
    delete(answer_verdicts).where(_VERDICTS_OF_BANK, answer_verdicts.c.at < _LAST_VERDICT.scalar_subquery())
)
_DELETE_VERDICTS: Final = Statement(
    delete(answer_verdicts).where(answer_verdicts.c.answer_id == bindparam("answer")), ("answer",)
)  # fmt: skip


def is_storable(*texts: str) -> bool:
    """Return whether both databases can store these texts: PostgreSQL rejects NUL, and neither a lone surrogate."""
    return not any("\0" in text or any("\ud800" <= part <= "\udfff" for part in text) for text in texts)


def find_existing_banks(connection: Connection, ids: Collection[BankId]) -> Collection[str]:
    """Return the banks that exist: deferred writes may arrive after a bank's deletion."""
    return {row.id for row in fetch_by_ids(connection, _SELECT_BANKS, set(ids))}


def delete_verdicts(connection: Connection, answer_ids: Collection[str]) -> None:
    _DELETE_VERDICTS.run_many(connection, [(answer_id,) for answer_id in answer_ids])


class AnswerUses(Noun):
    """Uses of ready answers with their judgments, verdicts of judges, and daily counts.

    Batch writes skip texts that no database can store (NUL or a lone surrogate).
    """

    async def record_uses(self, uses: Sequence[AnswerUse]) -> Collection[AnswerId]:
        """Store uses and count them in their answers; return the live answers used for the first time.

        Uses that are stored already, and those of deleted answers, are skipped.
        """
        await self._hold(*(bank_key(use.bank_id) for use in uses))
        return await self._run(lambda connection: _record_uses(connection, uses)) if uses else ()

    async def find_uses(
        self,
        bank_id: BankId,
        *,
        agent_id: AgentId | None = None,
        judged: bool | None = None,
        upto: datetime | None = None,
        limit: int = 100,
    ) -> Sequence[AnswerUse]:
        """Return uses, newest first; `judged` selects those with, or without, a judgment.

        `upto` excludes later ones: after the clock was set back they would count as the newest for long.
        """
        statement = _SELECT_USES if agent_id is None else _SELECT_USES_OF_AGENT
        values = {"bank": bank_id, "agent": agent_id, "most": limit, "untold": not judged, "upto": upto or _NO_END}
        kinds = (True, False) if judged is None else (judged,)

        def work(connection: Connection) -> list[AnswerUse]:
            uses = [use for kind in kinds for use in statement.all(connection, {**values, "looked_at": kind})]
            return sorted(uses, key=lambda use: use.id, reverse=True)[:limit]

        return await self._run(work, short=False)

    async def save_judgment(self, bank_id: BankId, use_id: str, *, right: bool | None, at: datetime) -> None:
        """Write the judgment of a use; none means undecided."""
        await self._hold(bank_key(bank_id))
        values = {"of_id": use_id, "bank": bank_id, "looked_at": True, "new_right": right, "now": at}
        await self._execute(_SAVE_JUDGMENT, values)

    async def save_verdicts(self, verdicts: Sequence[SameQuestionVerdict]) -> None:
        """Insert or overwrite verdicts by id, except those about answers that are not live.

        They are deleted when their answer is dropped or gets new phrasings. The last `MAX_VERDICTS` per bank are kept.
        """
        await self._hold(*(bank_key(verdict.bank_id) for verdict in verdicts))
        if verdicts:
            await self._run(lambda connection: _save_verdicts(connection, verdicts))

    async def find_verdicts(self, bank_id: BankId, ids: Collection[str]) -> Sequence[SameQuestionVerdict]:
        verdicts = await self._run(lambda connection: fetch_by_ids(connection, _SELECT_VERDICTS, ids), short=True)
        return [verdict for verdict in verdicts if verdict.bank_id == bank_id]

    async def add_counts(self, days: Sequence[AnswerDay]) -> None:
        """Add these counts to the stored ones, skipping deleted banks."""
        await self._hold(*(bank_key(day.bank_id) for day in days))

        def work(connection: Connection) -> None:
            known = find_existing_banks(connection, [day.bank_id for day in days])
            _ADD_DAYS.run_many(connection, [_write_day(day) for day in days if day.bank_id in known])

        if days:
            await self._run(work)

    async def find_days(self, bank_id: BankId, *, since: date) -> Sequence[AnswerDay]:
        """Return the bank's counts from this day on, by day."""
        return await self._all(_SELECT_DAYS, {"bank": bank_id, "since": number_of(since)})


def _record_uses(connection: Connection, uses: Sequence[AnswerUse]) -> Collection[AnswerId]:
    known = {row.id: row for row in fetch_by_ids(connection, _SELECT_ANSWERS, {use.answer_id for use in uses})}
    written = {row.id for row in fetch_by_ids(connection, _SELECT_IDS, {use.id for use in uses})}
    new: dict[str, AnswerUse] = {}
    for use in uses:
        answer = known.get(use.answer_id)
        if answer is not None and answer.bank_id == use.bank_id and is_storable(use.question, use.phrasing):
            new.setdefault(use.id, use)
    fresh = [use for use in new.values() if use.id not in written]
    _ADD.run_many(connection, [_write_use(use) for use in fresh])
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
    _COUNT_USES.run_many(connection, rows)
    return [answer_id for answer_id in times if not known[answer_id].uses]


def _save_verdicts(connection: Connection, verdicts: Sequence[SameQuestionVerdict]) -> None:
    rows = fetch_by_ids(connection, _SELECT_ANSWERS, {verdict.answer_id for verdict in verdicts})
    live = {(row.bank_id, row.id) for row in rows if not row.dropped}
    live_verdicts = {verdict.id: verdict for verdict in verdicts if (verdict.bank_id, verdict.answer_id) in live}
    _SAVE_VERDICTS.run_many(connection, [_write_verdict(verdict) for verdict in live_verdicts.values()])
    for bank_id in {verdict.bank_id for verdict in live_verdicts.values()}:
        _TRIM_VERDICTS.execute(connection, {"bank": bank_id})
