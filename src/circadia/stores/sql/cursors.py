"""How far readers of the event log came, and how far backlogs are written."""

from sqlalchemy import BigInteger, Column, String, Table, bindparam, delete, select

from circadia.errors import Conflict
from circadia.stores.locks import cursor_key
from circadia.stores.sql.noun import Noun
from circadia.stores.sql.schema import metadata
from circadia.stores.sql.statement import Statement
from circadia.stores.sql.upsert import Upsert

cursors = Table(
    "cursors",
    metadata,
    Column("name", String, primary_key=True),
    Column("number", BigInteger, nullable=False),  # of the last event or entry that was dealt with
)

_SAVE = Statement(Upsert(cursors, keys=("name",), new=("number",)), [column.name for column in cursors.c])
_ADVANCE = Statement(
    Upsert(cursors, keys=("name",), new=("number",), only_if=lambda before, new: new.number > before.number),
    [column.name for column in cursors.c],
    is_checked=True,
)
_REMOVE = Statement(delete(cursors).where(cursors.c.name == bindparam("of_name")))
_RETIRE = Statement(delete(cursors).where(cursors.c.name.between(bindparam("first"), bindparam("last"))))
_NUMBER = Statement(select(cursors.c.number).where(cursors.c.name == bindparam("of_name")))


class Cursors(Noun):
    """How far readers of the event log came, and how far backlogs are written, by their name."""

    async def get(self, name: str) -> int | None:
        return await self._scalar(_NUMBER, {"of_name": name})

    async def save(self, name: str, number: int) -> None:
        await self._hold(cursor_key(name))
        await self._execute(_SAVE, {"name": name, "number": number})

    async def advance(self, name: str, number: int, *, or_raise: Conflict) -> None:
        """Set a number that ascends; if it is there already, the block raises `or_raise` by its end."""
        self._queue_write(_ADVANCE, (name, number), or_raise=or_raise)

    async def remove(self, name: str) -> None:
        await self._execute(_REMOVE, {"of_name": name})

    async def retire(self, first: str, last: str) -> None:
        """Remove the cursors with names from `first` to `last`."""
        await self._execute(_RETIRE, {"first": first, "last": last})
