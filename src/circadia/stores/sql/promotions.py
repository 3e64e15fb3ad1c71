"""Which notes were copied into other banks (MEM-35)."""

from collections.abc import Collection, Sequence
from dataclasses import fields
from typing import Final

from sqlalchemy import Column, Index, String, Table, bindparam, delete, select

from circadia.ids import BankId, NoteId
from circadia.records.promotion import Promotion
from circadia.stores.sql.noun import Noun
from circadia.stores.sql.row_mapping import build_reader, build_writer
from circadia.stores.sql.schema import metadata
from circadia.stores.sql.statement import Statement
from circadia.stores.sql.upsert import Upsert

promotions = Table(
    "promotions",
    metadata,
    Column("note_id", String, primary_key=True),
    Column("bank_id", String, primary_key=True),
    Column("source_bank_id", String, nullable=False),
    Column("episode_id", String, nullable=False),
)
Index("promotions_source", promotions.c.source_bank_id)
Index("promotions_bank", promotions.c.bank_id)

_FIELDS: Final = tuple(field.name for field in fields(Promotion))
_read_promotion = build_reader(Promotion)
_write_promotion = build_writer(_FIELDS)
_PUT: Final = Statement(Upsert(promotions, keys=("note_id", "bank_id"), new=("episode_id",)), _FIELDS)
_SELECT_OF_BANK: Final = Statement(
    select(promotions).where(promotions.c.source_bank_id == bindparam("source")).limit(bindparam("most")),
    read=_read_promotion,
)


class Promotions(Noun):
    """Notes that were copied into other banks."""

    async def put(self, promotion: Promotion) -> None:
        """Store a promotion; it replaces an earlier one of the note into the same bank."""
        await self._write(_PUT, _write_promotion(promotion))

    async def find_of_notes(self, notes: Collection[NoteId]) -> Sequence[Promotion]:
        statement = select(promotions).where(promotions.c.note_id.in_(notes))
        return await self._select(statement, _read_promotion) if notes else ()

    async def find_of_bank(self, bank_id: BankId, *, limit: int) -> Sequence[Promotion]:
        """Return up to `limit` promotions of notes of this bank."""
        return await self._all(_SELECT_OF_BANK, {"source": bank_id, "most": limit}, short=False)

    async def remove(self, notes: Collection[NoteId]) -> None:
        statement = delete(promotions).where(promotions.c.note_id.in_(notes))
        await self._run(lambda connection: connection.execute(statement))
