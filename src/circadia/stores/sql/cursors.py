"""How far readers of the event log came."""

from sqlalchemy import BigInteger, Column, Connection, String, Table, bindparam, select

from circadia.stores.locks import cursor_key
from circadia.stores.sql.link import Runner
from circadia.stores.sql.schema import metadata
from circadia.stores.sql.statement import Statement
from circadia.stores.sql.upsert import Upsert

cursors = Table(
    "cursors",
    metadata,
    Column("name", String, primary_key=True),
    Column("number", BigInteger, nullable=False),  # of the last event that was dealt with
)

_SAVE = Statement(Upsert(cursors, keys=("name",), new=("number",)), [column.name for column in cursors.c])
_NUMBER = Statement(select(cursors.c.number).where(cursors.c.name == bindparam("of_name")))


class SqlCursors:
    def __init__(self, runner: Runner) -> None:
        self._run = runner.run
        self._hold = runner.hold

    async def get(self, name: str) -> int | None:
        return await self._run(lambda connection: _NUMBER.scalar(connection, {"of_name": name}))

    async def save(self, name: str, number: int) -> None:
        await self._hold(cursor_key(name))

        def work(connection: Connection) -> None:
            _SAVE.execute(connection, {"name": name, "number": number})

        await self._run(work)
