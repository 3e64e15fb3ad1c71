"""Effect of sleep-tier work on hot calls."""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any, Final

from sqlalchemy import Row, bindparam, func, select

from circadia.ids import BankId
from circadia.records.sleep_call import Benefit
from circadia.stores.locks import bank_key
from circadia.stores.sql.link import Runner
from circadia.stores.sql.sleep_tables import benefits
from circadia.stores.sql.statement import Statement
from circadia.stores.sql.upsert import Upsert

_EPOCH: Final = date(1970, 1, 1)
_COLUMNS: Final = [column.name for column in benefits.c]
_KEYS: Final = ("bank_id", "operation", "day")
_ADD = Statement(Upsert(benefits, keys=_KEYS, more=[name for name in _COLUMNS if name not in _KEYS]), _COLUMNS)
_EVERY = Statement(
    select(benefits)
    .where(benefits.c.bank_id == bindparam("bank"), benefits.c.day >= bindparam("since"))
    .order_by(benefits.c.operation, benefits.c.day)
)
_TOKENS = Statement(
    select(func.coalesce(func.sum(benefits.c.saved_tokens), 0)).where(benefits.c.day >= bindparam("since"))
)


def day_of(number: int) -> date:
    """Return the date of a number of days since 1970, as stored."""
    return _EPOCH + timedelta(days=number)


def number_of(day: date) -> int:
    """Return the number of days since 1970, as stored."""
    return (day - _EPOCH).days


class SqlBenefits:
    def __init__(self, runner: Runner) -> None:
        self._run = runner.run
        self._hold = runner.hold

    async def add(self, gains: Sequence[Benefit]) -> None:
        await self._hold(*(bank_key(benefit.bank_id) for benefit in gains))
        rows = [
            [number_of(benefit.day) if name == "day" else getattr(benefit, name) for name in _COLUMNS]
            for benefit in gains
        ]
        if rows:
            await self._run(lambda connection: _ADD.run_many(connection, rows))

    async def find_all(self, bank_id: BankId, *, since: date) -> Sequence[Benefit]:
        values = {"bank": bank_id, "since": number_of(since)}
        return [_benefit(row) for row in await self._run(lambda connection: _EVERY.all(connection, values))]

    async def sum_saved_tokens(self, *, since: date) -> int:
        return int(await self._run(lambda connection: _TOKENS.scalar(connection, {"since": number_of(since)})))


def _benefit(row: Row[Any]) -> Benefit:
    return Benefit(
        bank_id=BankId(row.bank_id),
        operation=row.operation,
        day=day_of(row.day),
        uses=row.uses,
        saved_tokens=row.saved_tokens,
        saved_seconds=row.saved_seconds,
        saved_nanousd=row.saved_nanousd,
        unpriced_tokens=row.unpriced_tokens,
    )
