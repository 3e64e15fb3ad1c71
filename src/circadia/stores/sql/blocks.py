"""Blocks: each write adds a version (MEM-11)."""

from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any, Final

from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, and_, bindparam, func, select, true, update

from circadia.ids import BankId
from circadia.records.block import Block, BlockSpan
from circadia.stores.locks import bank_key
from circadia.stores.sql.memory_tables import blocks
from circadia.stores.sql.noun import Noun
from circadia.stores.sql.row_mapping import build_reader, build_writer
from circadia.stores.sql.schema import Instant
from circadia.stores.sql.statement import Statement
from circadia.stores.sql.upsert import Upsert

_SPANS: Final = TypeAdapter(tuple[BlockSpan, ...])
_FIELDS: Final = tuple(field.name for field in fields(Block))


def _dump_spans(block: Block) -> list[dict[str, Any]]:
    return _SPANS.dump_python(tuple(block.spans), mode="json")


_read_block = build_reader(Block, spans=_SPANS.validate_python)
_write_block = build_writer(_FIELDS, spans=_dump_spans)
_write_text = build_writer(("value", "spans", "bank_id", "label", "version"), spans=_dump_spans)
_ADD = Statement(Upsert(blocks), _FIELDS)
_OF_LABEL = select(blocks).where(blocks.c.bank_id == bindparam("bank"), blocks.c.label == bindparam("label"))
_SELECT_LATEST = Statement(_OF_LABEL.order_by(blocks.c.version.desc()).limit(1), read=_read_block)
_SELECT_HISTORY = Statement(
    _OF_LABEL.where(blocks.c.version > bindparam("after")).order_by(blocks.c.version).limit(bindparam("most")),
    read=_read_block,
)
_ALL_VERSIONS: Final = 2**31 - 1
_OF_BANK = select(blocks).where(blocks.c.bank_id == bindparam("bank"))
_FIRST_LABEL = _OF_BANK.with_only_columns(func.min(blocks.c.label).label("label"))
_SO_FAR = _FIRST_LABEL.cte("labels", recursive=True)
_NEXT_LABEL = _FIRST_LABEL.where(blocks.c.label > _SO_FAR.c.label).scalar_subquery()
_LABELS = _SO_FAR.union_all(select(_NEXT_LABEL).where(_SO_FAR.c.label.is_not(None)))
"""Each label by a look at the index: `DISTINCT` and `GROUP BY` read each version."""
_VERSIONS = blocks.alias("versions")


def _select_present(*conditions: ColumnElement[bool]) -> Statement[Block]:
    """Select the newest of `_VERSIONS` under the conditions, of each block that it does not mark as deleted."""
    newest = (
        select(func.max(_VERSIONS.c.version))
        .where(_VERSIONS.c.bank_id == bindparam("bank"), _VERSIONS.c.label == _LABELS.c.label, *conditions)
        .correlate(_LABELS)
        .scalar_subquery()
    )
    is_newest = blocks.c.bank_id == bindparam("bank"), blocks.c.label == _LABELS.c.label, blocks.c.version == newest
    # An outer join, in the order of the labels, so that planners begin with these few.
    rows = select(blocks).select_from(_LABELS.outerjoin(blocks, and_(*is_newest)))
    is_deleted = func.coalesce(blocks.c.deleted, true())
    return Statement(rows.where(is_deleted.is_(False)).order_by(_LABELS.c.label), read=_read_block)


_SELECT_PRESENT = _select_present()
_SELECT_PRESENT_AT = _select_present(_VERSIONS.c.at <= bindparam("then", type_=Instant))
_SELECT_LABELS = Statement(select(_LABELS.c.label).where(_LABELS.c.label.is_not(None)).order_by(_LABELS.c.label))
_SELECT_VERSIONS = Statement(_OF_BANK.order_by(blocks.c.label, blocks.c.version), read=_read_block)
_REWRITE = Statement(
    update(blocks)
    .where(
        blocks.c.bank_id == bindparam("in_bank"),
        blocks.c.label == bindparam("of_label"),
        blocks.c.version == bindparam("of_version"),
    )
    .values(value=bindparam("new_value"), spans=bindparam("new_spans")),
    ("new_value", "new_spans", "in_bank", "of_label", "of_version"),
)


class Blocks(Noun):
    """Blocks: each write adds a version."""

    async def add(self, block: Block) -> bool:
        """Store a version; return false if it is not the next one, since someone else wrote in between."""
        await self._hold(bank_key(block.bank_id))
        return await self._write(_ADD, _write_block(block)) == 1

    async def get_latest(self, bank_id: BankId, label: str) -> Block | None:
        """Return the newest version, even if it marks a deletion."""
        await self._hold(bank_key(bank_id))
        return await self._first(_SELECT_LATEST, {"bank": bank_id, "label": label})

    async def find_all(self, bank_id: BankId) -> Sequence[Block]:
        """Return the newest version of each block that is not deleted, by label."""
        await self._hold(bank_key(bank_id))
        return await self._all(_SELECT_PRESENT, {"bank": bank_id}, short=False)

    async def find_all_at(self, bank_id: BankId, at: datetime) -> Sequence[Block]:
        """Return the version of each block that was the newest at a time and not deleted, by label."""
        return await self._all(_SELECT_PRESENT_AT, {"bank": bank_id, "then": at}, short=False)

    async def labels(self, bank_id: BankId) -> Sequence[str]:
        """Return all present and past labels of the bank, in order."""
        rows = await self._all(_SELECT_LABELS, {"bank": bank_id})
        return [row.label for row in rows]

    async def history(
        self, bank_id: BankId, label: str, *, after: int = 0, limit: int = _ALL_VERSIONS
    ) -> Sequence[Block]:
        """Return all versions, oldest first."""
        return await self._all(
            _SELECT_HISTORY, {"bank": bank_id, "label": label, "after": after, "most": limit}, short=False
        )

    async def versions(self, bank_id: BankId) -> Sequence[Block]:
        """Return all versions with spans, of all blocks of a bank."""
        return [block for block in await self._all(_SELECT_VERSIONS, {"bank": bank_id}, short=False) if block.spans]

    async def rewrite_version(self, block: Block) -> None:
        """Overwrite value and spans of a version, to forget something in it."""
        await self._hold(bank_key(block.bank_id))
        await self._write(_REWRITE, _write_text(block))
