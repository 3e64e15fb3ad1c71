"""Model calls of the sleep tier, whose cost is in the usage ledger, and their effect on hot calls."""

from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime
from typing import Final

from sqlalchemy import bindparam, func, insert, select, text, true, update

from circadia.ids import BankId, CallId, PassId
from circadia.records.call import CallStatus
from circadia.records.sleep_call import FORGOTTEN, WASTED, Benefit, OperationModelCost, SleepCall, SleepCost
from circadia.stores.locks import FLEET_KEY, LockKey, bank_key
from circadia.stores.sql.noun import Noun, where_given
from circadia.stores.sql.row_mapping import build_reader, build_writer
from circadia.stores.sql.schema import calls, day_of, number_of
from circadia.stores.sql.sleep_tables import benefits, sleep_calls
from circadia.stores.sql.statement import Statement
from circadia.stores.sql.upsert import Upsert

_COLUMNS = [column.name for column in sleep_calls.c]
_read_call = build_reader(SleepCall)
_write_call = build_writer(_COLUMNS)
_read_cost = build_reader(
    SleepCost, calls=int, tokens=int, nanousd=int, seconds=float, thinking_tokens=int, thinking_nanousd=int
)
_ADD = Statement(insert(sleep_calls).inline(), _COLUMNS)
_SAVE_OUTCOME = Statement(
    update(sleep_calls)
    .where(sleep_calls.c.id == bindparam("of"), sleep_calls.c.error != FORGOTTEN)
    .values(answer=bindparam("answered"), error=bindparam("failed"), thinking_nanousd=bindparam("thinking"))
)
_SELECT_ANSWERED = Statement(
    select(sleep_calls)
    .where(
        sleep_calls.c.bank_id == bindparam("bank"),
        sleep_calls.c.key == bindparam("asked"),
        sleep_calls.c.answer.is_not(None),
    )
    .order_by(sleep_calls.c.id.desc())
    .limit(1),
    read=_read_call,
)
_SELECT_UNANSWERED = Statement(
    select(sleep_calls).where(
        sleep_calls.c.bank_id == bindparam("bank"),
        sleep_calls.c.key == bindparam("asked"),
        sleep_calls.c.answer.is_(None),
        sleep_calls.c.error == "",
        sleep_calls.c.batch.is_(None),
    ),
    read=_read_call,
)
_SELECT_BATCHED = Statement(
    select(sleep_calls).where(
        sleep_calls.c.bank_id == bindparam("bank"),
        sleep_calls.c.key == bindparam("asked"),
        sleep_calls.c.batch.is_not(None),
        sleep_calls.c.error != FORGOTTEN,
    ),
    read=_read_call,
)
_SELECT_BATCH_IDS = Statement(
    select(sleep_calls.c.batch_id)
    .where(text("batch IS NOT NULL"), sleep_calls.c.at >= bindparam("since"), sleep_calls.c.batch_id.is_not(None))
    .distinct()
)
_MARK_USED = Statement(update(sleep_calls).where(sleep_calls.c.id == bindparam("of")).values(used=true()))
_IS_UNUSED = (
    sleep_calls.c.pass_id == bindparam("of_pass"), sleep_calls.c.batch.is_not(None), sleep_calls.c.used.is_(False),
)  # fmt: skip
_COUNT_WASTED = Statement(
    select(func.count()).select_from(sleep_calls).where(*_IS_UNUSED, sleep_calls.c.error.in_(("", FORGOTTEN)))
)
_DROP_BATCHED = Statement(update(sleep_calls).where(*_IS_UNUSED, sleep_calls.c.error == "").values(error=WASTED))
_SAVE_BATCH_ID = Statement(
    update(sleep_calls)
    .where(sleep_calls.c.pass_id == bindparam("of_pass"), sleep_calls.c.batch == bindparam("of_batch"))
    .values(batch_id=bindparam("found"))
)
_RENEW_LEASE = Statement(
    update(sleep_calls).where(sleep_calls.c.id == bindparam("of")).values(lease_until=bindparam("until"))
)
_SELECT_OF_PASS = Statement(
    select(sleep_calls).where(sleep_calls.c.pass_id == bindparam("of")).order_by(sleep_calls.c.id), read=_read_call
)
_IS_KNOWN = func.coalesce(calls.c.input_tokens, calls.c.output_tokens).is_not(None)
_TOKENS = func.coalesce(calls.c.input_tokens, 0) + func.coalesce(calls.c.output_tokens, 0)
_COST = select(
    func.count().label("calls"),
    (
        func.coalesce(func.sum(_TOKENS).filter(_IS_KNOWN), 0)
        + func.coalesce(func.sum(calls.c.reserved_tokens).filter(~_IS_KNOWN), 0)
    ).label("tokens"),
    func.coalesce(func.sum(func.coalesce(calls.c.cost_nanousd, calls.c.reserved_nanousd)), 0).label("nanousd"),
    func.coalesce(func.sum(calls.c.total_seconds), 0.0).label("seconds"),
    func.coalesce(func.sum(calls.c.reasoning_tokens), 0).label("thinking_tokens"),
    func.coalesce(func.sum(sleep_calls.c.thinking_nanousd), 0).label("thinking_nanousd"),
).select_from(sleep_calls.join(calls, calls.c.id == sleep_calls.c.id))
_BY = (sleep_calls.c.operation, calls.c.model)
_COST_BY_MODEL = (
    _COST.add_columns(*_BY, func.count().filter(calls.c.status == CallStatus.FAILED.value).label("failed"))
    .group_by(*_BY)
    .order_by(*_BY)
)
_COST_BY_OPERATION = (
    _COST.add_columns(sleep_calls.c.operation)
    .where(sleep_calls.c.bank_id == bindparam("bank"), sleep_calls.c.at >= bindparam("since"))
    .group_by(sleep_calls.c.operation)
)


class SleepCalls(Noun):
    """Model calls of the sleep tier. Their cost is in the usage ledger under the same ids."""

    async def add(self, call: SleepCall) -> None:
        await self._hold(bank_key(call.bank_id))
        await self._write(_ADD, _write_call(call))

    async def save_outcome(self, call: SleepCall) -> None:
        """Write the answer or error, unless the bank was deleted or its calls forgotten since the call started."""
        await self._hold(bank_key(call.bank_id))
        values = {"answered": call.answer, "failed": call.error, "thinking": call.thinking_nanousd}
        await self._execute(_SAVE_OUTCOME, {"of": call.id, **values})

    async def get_answered(self, bank_id: BankId, key: str) -> SleepCall | None:
        """Return the bank's answered call of this key."""
        return await self._first(_SELECT_ANSWERED, {"bank": bank_id, "asked": key}, short=True)

    async def find_unanswered(self, bank_id: BankId, key: str) -> Sequence[SleepCall]:
        """Return the bank's calls of this key without answer or error."""
        return await self._all(_SELECT_UNANSWERED, {"bank": bank_id, "asked": key}, short=True)

    async def find_batched(self, bank_id: BankId, key: str) -> Sequence[SleepCall]:
        """Return the bank's calls of this key that batches ask or have asked."""
        return await self._all(_SELECT_BATCHED, {"bank": bank_id, "asked": key}, short=True)

    async def find_batch_ids(self, *, since: datetime) -> Collection[str]:
        """Return the providers' ids of the batches with calls since then."""
        return {str(row.batch_id) for row in await self._all(_SELECT_BATCH_IDS, {"since": since})}

    async def save_batch_id(self, pass_id: PassId, batch: str, batch_id: str) -> None:
        """Record that a batch of the pass is submitted."""
        await self._execute(_SAVE_BATCH_ID, {"of_pass": pass_id, "of_batch": batch, "found": batch_id})

    async def mark_used(self, call_ids: Collection[CallId]) -> None:
        """Record that a pass publishes what these calls have answered."""
        for call_id in sorted(call_ids):
            await self._execute(_MARK_USED, {"of": call_id})

    async def drop_batched(self, pass_id: PassId) -> int:
        """Mark the batched calls of a pass that is over, and that it did not use, as wasted; return their number.

        It counts those that were forgotten meanwhile.
        """
        wasted = int(await self._scalar(_COUNT_WASTED, {"of_pass": pass_id}))
        if wasted:
            await self._execute(_DROP_BATCHED, {"of_pass": pass_id})
        return wasted

    async def renew_lease(self, call_id: CallId, until: datetime) -> None:
        await self._execute(_RENEW_LEASE, {"of": call_id, "until": until})

    async def find_by_pass(self, pass_id: PassId) -> Sequence[SleepCall]:
        """Return a pass's calls in order."""
        return await self._all(_SELECT_OF_PASS, {"of": pass_id})

    async def sum_cost(
        self,
        *,
        since: datetime | None = None,
        bank_id: BankId | None = None,
        pass_id: PassId | None = None,
        operation: str | None = None,
        shared: bool = False,
    ) -> SleepCost:
        """Return the cost of calls that match all given conditions, reservations included.

        `shared` leaves out those of passes with a budget of their own.
        """
        await self._hold(*_build_cost_keys(bank_id, pass_id))
        statement = where_given(
            _COST,
            (sleep_calls.c.bank_id, bank_id),
            (sleep_calls.c.pass_id, pass_id),
            (sleep_calls.c.operation, operation),
            time=sleep_calls.c.at,
            since=since,
        )
        if shared:
            statement = statement.where(sleep_calls.c.own_budget.is_(False))
        return _read_cost(await self._run(lambda connection: connection.execute(statement).one(), short=False))

    async def sum_cost_by_pass(self, pass_ids: Collection[PassId]) -> Mapping[PassId, SleepCost]:
        """Return the cost of each of these passes that has calls, reservations included."""
        statement = _COST.add_columns(sleep_calls.c.pass_id).where(sleep_calls.c.pass_id.in_(pass_ids))
        rows = await self._run(lambda connection: connection.execute(statement.group_by(sleep_calls.c.pass_id)).all())
        return {PassId(row.pass_id): _read_cost(row) for row in rows}

    async def sum_cost_by_model(self, pass_id: PassId) -> Sequence[OperationModelCost]:
        """Return the cost of a pass's calls, ordered by operation and model."""
        statement = _COST_BY_MODEL.where(sleep_calls.c.pass_id == pass_id)
        return [
            OperationModelCost(operation=row.operation, model=row.model, failed=int(row.failed), spent=_read_cost(row))
            for row in await self._run(lambda connection: connection.execute(statement).all())
        ]

    async def sum_cost_by_operation(self, bank_id: BankId, *, since: datetime) -> Mapping[str, SleepCost]:
        """Return the cost of a bank's calls since then by operation, reservations included."""
        values = {"bank": bank_id, "since": since}
        rows = await self._run(lambda connection: connection.execute(_COST_BY_OPERATION, values).all())
        return {row.operation: _read_cost(row) for row in rows}

    async def forget_answers(self, bank_id: BankId) -> int:
        """Remove the answers of a bank's calls, pending ones too; return their number."""
        statement = update(sleep_calls).where(sleep_calls.c.error == "", sleep_calls.c.bank_id == bank_id)
        statement = statement.values(answer=None, error=FORGOTTEN)
        return await self._run(lambda connection: connection.execute(statement).rowcount, short=False)


def _build_cost_keys(bank_id: BankId | None, pass_id: PassId | None) -> Sequence[LockKey]:
    """Return the keys of a budget; the bank's key guards that of a pass too."""
    if bank_id is not None:
        return (bank_key(bank_id),)
    return () if pass_id is not None else (FLEET_KEY,)


_BENEFIT_COLUMNS: Final = [column.name for column in benefits.c]
_BENEFIT_KEYS: Final = ("bank_id", "operation", "day")


_read_benefit = build_reader(Benefit, day=day_of)
_write_benefit = build_writer(_BENEFIT_COLUMNS, day=lambda benefit: number_of(benefit.day))
_ADD_BENEFITS = Statement(
    Upsert(benefits, keys=_BENEFIT_KEYS, more=[name for name in _BENEFIT_COLUMNS if name not in _BENEFIT_KEYS]),
    _BENEFIT_COLUMNS,
)
_SELECT_BENEFITS = Statement(
    select(benefits)
    .where(benefits.c.bank_id == bindparam("bank"), benefits.c.day >= bindparam("since"))
    .order_by(benefits.c.operation, benefits.c.day),
    read=_read_benefit,
)
_SUM_SAVED_TOKENS = Statement(
    select(func.coalesce(func.sum(benefits.c.saved_tokens), 0)).where(benefits.c.day >= bindparam("since"))
)
_SUM_SAVED_MONEY = Statement(
    select(benefits.c.day, func.sum(benefits.c.saved_nanousd))
    .where(benefits.c.day >= bindparam("since"))
    .group_by(benefits.c.day)
)


class Benefits(Noun):
    """Effect of sleep-tier work on hot calls, by bank, operation and day."""

    async def add(self, gains: Sequence[Benefit]) -> None:
        """Add these counts to the stored ones."""
        await self._hold(*(bank_key(benefit.bank_id) for benefit in gains))
        rows = [_write_benefit(benefit) for benefit in gains]
        if rows:
            await self._run(lambda connection: _ADD_BENEFITS.run_many(connection, rows))

    async def find_all(self, bank_id: BankId, *, since: date) -> Sequence[Benefit]:
        """Return a bank's benefits from this day on, by operation and day."""
        return await self._all(_SELECT_BENEFITS, {"bank": bank_id, "since": number_of(since)})

    async def sum_saved_tokens(self, *, since: date) -> int:
        """Return the tokens saved in all banks from this day on."""
        return int(await self._scalar(_SUM_SAVED_TOKENS, {"since": number_of(since)}))

    async def sum_saved_money(self, *, since: date) -> Mapping[date, int]:
        """Return what was saved in all banks, in billionths of a US dollar, by day from this one on."""
        rows = await self._all(_SUM_SAVED_MONEY, {"since": number_of(since)})
        return {day_of(row[0]): int(row[1]) for row in rows}
