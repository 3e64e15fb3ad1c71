"""Sources of recent texts (MEM-14, SLEEP-63)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

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
    update,
)

from circadia.records.episode import Provenance
from circadia.stores.sql.noun import Noun
from circadia.stores.sql.row_mapping import build_reader, build_writer
from circadia.stores.sql.schema import NUMBER, Instant, metadata
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
    Column("conversation", String, nullable=False, server_default=""),
    Column("expires_at", Instant, nullable=False),
    sqlite_autoincrement=True,  # numbers are never reused, whatever has expired
)
Index("provenances_scope", provenances.c.scope, provenances.c.number)
Index("provenances_expiry", provenances.c.expires_at)
Index("provenances_conversation", provenances.c.conversation)

_FIELDS: Final = [column.name for column in provenances.c if column.name != "number"]
_read_provenance = build_reader(Provenance, messages=list)
_write_provenance = build_writer(_FIELDS)
_ADD: Final = Statement(insert(provenances).inline(), _FIELDS)
_DELETE_EXPIRED: Final = Statement(
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
_RENEW: Final = Statement(
    update(provenances)
    .where(provenances.c.conversation == bindparam("of_conversation"), provenances.c.scope == bindparam("of_scope"))
    .values(expires_at=bindparam("until"))
)
_SELECT_RECENT: Final = Statement(
    select(provenances)
    .where(
        provenances.c.scope == bindparam("of_scope"),
        provenances.c.number > bindparam("after"),
        provenances.c.expires_at > bindparam("now"),
    )
    .order_by(provenances.c.number.desc())
    .limit(bindparam("most")),
    read=_read_provenance,
)


class Provenances(Noun):
    """Sources of recent texts."""

    async def add(self, new: Sequence[Provenance]) -> None:
        for item in new:
            self._queue_write(_ADD, _write_provenance(item))

    async def renew(self, scope: str, conversation: str, until: datetime) -> None:
        """Let what was said in a conversation expire later."""
        await self._execute(_RENEW, {"of_scope": scope, "of_conversation": conversation, "until": until})

    async def delete_expired(self, now: datetime, *, limit: int) -> int:
        return await self._execute(_DELETE_EXPIRED, {"now": now, "most": limit})

    async def find_recent(self, scope: str, *, after: int, now: datetime, limit: int) -> Sequence[Provenance]:
        """Return the scope's provenances with a greater number in order; if more than `limit`, the newest."""
        values = {"of_scope": scope, "after": after, "now": now, "most": limit}
        return (await self._all(_SELECT_RECENT, values, short=True))[::-1]
