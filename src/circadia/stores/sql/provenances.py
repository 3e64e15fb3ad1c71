"""Sources of recent texts (MEM-14, SLEEP-63)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Identity,
    Index,
    LargeBinary,
    String,
    Table,
    bindparam,
    delete,
    insert,
    select,
)

from circadia.ids import MessageId
from circadia.records.bank import Trust
from circadia.records.episode import Provenance
from circadia.stores.sql.link import Runner
from circadia.stores.sql.schema import NUMBER, Instant, metadata
from circadia.stores.sql.short_reads import ShortRead
from circadia.stores.sql.statement import Statement

provenances = Table(
    "provenances",
    metadata,
    Column("number", NUMBER, Identity(), primary_key=True),
    Column("scope", String, nullable=False),
    Column("speaker", String, nullable=False),
    Column("trust", String),
    Column("bank", String),
    Column("messages", JSON, nullable=False),
    Column("fingerprints", LargeBinary, nullable=False),
    Column("whole", BigInteger, nullable=False),
    Column("expires_at", Instant, nullable=False),
    sqlite_autoincrement=True,  # numbers are never reused, whatever has expired
)
Index("provenances_scope", provenances.c.scope, provenances.c.number)
Index("provenances_expiry", provenances.c.expires_at)

_FIELDS: Final = [column.name for column in provenances.c if column.name != "number"]
_ADD: Final = Statement(insert(provenances).inline(), _FIELDS)
_EXPIRE: Final = Statement(
    delete(provenances).where(
        provenances.c.number.in_(
            select(provenances.c.number)
            .where(provenances.c.expires_at <= bindparam("now"))
            .order_by(provenances.c.expires_at)
            .limit(bindparam("most"))
            .with_for_update(skip_locked=True)
        )
    )
)
_RECENT: Final = Statement(
    select(provenances)
    .where(
        provenances.c.scope == bindparam("of_scope"),
        provenances.c.number > bindparam("after"),
        provenances.c.expires_at > bindparam("now"),
    )
    .order_by(provenances.c.number.desc())
    .limit(bindparam("most"))
)


class SqlProvenances:
    def __init__(self, runner: Runner) -> None:
        self._run = runner.run
        self._queue_write = runner.queue_write

    async def add(self, new: Sequence[Provenance]) -> None:
        for item in new:
            self._queue_write(
                _ADD, [item.trust and item.trust.value if name == "trust" else getattr(item, name) for name in _FIELDS]
            )

    async def delete_expired(self, now: datetime, *, limit: int) -> int:
        return await self._run(lambda connection: _EXPIRE.execute(connection, {"now": now, "most": limit}))

    async def find_recent(self, scope: str, *, after: int, now: datetime, limit: int) -> Sequence[Provenance]:
        values = {"of_scope": scope, "after": after, "now": now, "most": limit}
        rows = await self._run(ShortRead(lambda connection: _RECENT.all(connection, values)))
        return [_provenance(row) for row in reversed(rows)]


def _provenance(row: Any) -> Provenance:
    return Provenance(
        number=row.number, scope=row.scope, speaker=row.speaker, trust=None if row.trust is None else Trust(row.trust),
        bank=row.bank, messages=[MessageId(message) for message in row.messages], fingerprints=bytes(row.fingerprints),
        whole=row.whole, expires_at=row.expires_at,
    )  # fmt: skip
