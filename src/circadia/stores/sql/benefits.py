"""Effect of sleep-tier work on hot calls."""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Final

from sqlalchemy import bindparam, func, select

from circadia.ids import BankId
from circadia.records.benefit import Benefit
from circadia.stores.locks import bank_key
from circadia.stores.sql.noun import Noun
from circadia.stores.sql.row_mapping import build_reader, build_writer
from circadia.stores.sql.sleep_tables import benefits
from circadia.stores.sql.statement import Statement
from circadia.stores.sql.upsert import Upsert

_EPOCH: Final = date(1970, 1, 1)
_COLUMNS: Final = [column.name for column in benefits.c]
_KEYS: Final = ("bank_id", "operation", "day")


def day_of(number: int) -> date:
    """Return the date of a number of days since 1970, as stored."""
    return _EPOCH + timedelta(days=number)


def number_of(day: date) -> int:
    """Return the number of days since 1970, as stored."""
    return (day - _EPOCH).days


_read_benefit = build_reader(Benefit, day=day_of)
_write_benefit = build_writer(_COLUMNS, day=lambda benefit: number_of(benefit.day))
_ADD = Statement(Upsert(benefits, keys=_KEYS, more=[name for name in _COLUMNS if name not in _KEYS]), _COLUMNS)
_EVERY = Statement(
    select(benefits)
    .where(benefits.c.bank_id == bindparam("bank"), benefits.c.day >= bindparam("since"))
    .order_by(benefits.c.operation, benefits.c.day),
    read=_read_benefit,
)
_TOKENS = Statement(
    select(func.coalesce(func.sum(benefits.c.saved_tokens), 0)).where(benefits.c.day >= bindparam("since"))
)


class Benefits(Noun):
    """Effect of sleep-tier work on hot calls, by bank, operation and day."""

    async def add(self, gains: Sequence[Benefit]) -> None:
        """Add these counts to the stored ones."""
        await self._hold(*(bank_key(benefit.bank_id) for benefit in gains))
        rows = [_write_benefit(benefit) for benefit in gains]
        if rows:
            await self._run(lambda connection: _ADD.run_many(connection, rows))

    async def find_all(self, bank_id: BankId, *, since: date) -> Sequence[Benefit]:
        """Return a bank's benefits from this day on, by operation and day."""
        values = {"bank": bank_id, "since": number_of(since)}
        return await self._all(_EVERY, values)

    async def sum_saved_tokens(self, *, since: date) -> int:
        """Return the tokens saved in all banks from this day on."""
        return int(await self._scalar(_TOKENS, {"since": number_of(since)}))
