"""Ready views (SLEEP-26)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, bindparam, delete, func, literal_column, select, update

from circadia.ids import BankId
from circadia.records.index_entry import Layer
from circadia.records.ready_view import BankHeads, ReadyView, ReadyViewSnapshot, ViewHit, ViewKind
from circadia.stores.locks import bank_key
from circadia.stores.sql.link import Runner
from circadia.stores.sql.memory_tables import episodes, notes, views
from circadia.stores.sql.searchable import select_greatest_number
from circadia.stores.sql.short_reads import LongWork, ShortRead
from circadia.stores.sql.statement import Statement
from circadia.stores.sql.upsert import Upsert

_COLUMNS: Final = [column.name for column in views.c]
_KEYS: Final = ("bank_id", "kind", "key")
_MADE: Final = ("stamp", "depth", "hits", "made_at")
_LAST: Final = [
    func.coalesce(select_greatest_number(table, bindparam("bank")), literal_column("0")).label(f"last_of_{table.name}")
    for table in (episodes, notes)
]
_OF_BANK: Final = views.c.bank_id == bindparam("bank")
_READY: Final = Statement(
    select(views.c.stamp, views.c.depth, views.c.hits, *_LAST).where(
        _OF_BANK,
        views.c.kind == ViewKind.QUESTION.value,
        views.c.key == bindparam("asked_key"),
        views.c.stamp.is_not(None),
    )
)
_HEADS: Final = Statement(select(*_LAST))
_GET: Final = Statement(
    select(views).where(_OF_BANK, views.c.kind == bindparam("of_kind"), views.c.key == bindparam("of_key"))
)
_EVERY: Final = Statement(select(views).where(_OF_BANK).order_by(views.c.kind, views.c.key))
_PUT: Final = Statement(Upsert(views, keys=_KEYS, new=[name for name in _COLUMNS if name not in _KEYS]), _COLUMNS)
_MAKE: Final = Statement(
    update(views)
    .where(*(views.c[name] == bindparam(f"of_{name}") for name in _KEYS))
    .values({name: bindparam(f"new_{name}") for name in _MADE})
)
_QUESTIONS: Final = (_OF_BANK, views.c.kind == ViewKind.QUESTION.value)
_ASKED: Final = Statement(
    select(views.c.key, views.c.days).where(*_QUESTIONS).order_by(views.c.asked_at.desc(), views.c.key)
)
_OLD: Final = (views.c.kind == ViewKind.QUESTION.value, views.c.asked_at < bindparam("before"))
_TRIM: Final = Statement(delete(views).where(_OF_BANK, *_OLD))


class SqlViews:
    def __init__(self, runner: Runner) -> None:
        self._run = runner.run
        self._hold = runner.hold

    async def find_ready(self, bank_id: BankId, key: str) -> ReadyViewSnapshot | None:
        values = {"bank": bank_id, "asked_key": key}
        row = await self._run(ShortRead(lambda connection: _READY.first(connection, values)))
        if row is None:
            return None
        return ReadyViewSnapshot(
            row.stamp, row.depth, _hits(row.hits), BankHeads(row.last_of_episodes, row.last_of_notes)
        )

    async def fetch_heads(self, bank_id: BankId) -> BankHeads:
        row = await self._run(ShortRead(lambda connection: _HEADS.first(connection, {"bank": bank_id})))
        return BankHeads(0, 0) if row is None else BankHeads(row.last_of_episodes, row.last_of_notes)

    async def get(self, bank_id: BankId, kind: ViewKind, key: str) -> ReadyView | None:
        values = {"bank": bank_id, "of_kind": kind.value, "of_key": key}
        row = await self._run(lambda connection: _GET.first(connection, values))
        return None if row is None else _view(row)

    async def find_all(self, bank_id: BankId) -> Sequence[ReadyView]:
        rows = await self._run(lambda connection: _EVERY.all(connection, {"bank": bank_id}))
        return [_view(row) for row in rows]

    async def put(self, view: ReadyView) -> None:
        await self._hold(bank_key(view.bank_id))
        values = {name: getattr(view, name) for name in _COLUMNS} | {"hits": list(map(tuple, view.hits))}
        await self._run(lambda connection: _PUT.execute(connection, values))

    async def save_hits(self, view: ReadyView) -> None:
        await self._hold(bank_key(view.bank_id))
        values = {f"of_{name}": getattr(view, name) for name in _KEYS}
        values |= {f"new_{name}": getattr(view, name) for name in _MADE} | {"new_hits": list(map(tuple, view.hits))}
        await self._run(lambda connection: _MAKE.execute(connection, values))

    async def drop(self, bank_id: BankId, kind: ViewKind | None = None) -> None:
        await self._hold(bank_key(bank_id))
        deletion = delete(views).where(views.c.bank_id == bank_id)
        if kind is not None:
            deletion = deletion.where(views.c.kind == kind.value)
        await self._run(LongWork(lambda connection: connection.execute(deletion)))

    async def trim_questions(self, bank_id: BankId, *, before: datetime, keep: int | None) -> None:
        await self._hold(bank_key(bank_id))
        await self._run(lambda connection: _trim(connection, bank_id, before, keep))

    async def find_bank_ids(self) -> Sequence[BankId]:
        ids = await self._run(lambda connection: connection.execute(select(views.c.bank_id).distinct()).scalars().all())
        return list(map(BankId, ids))


def _trim(connection: Connection, bank_id: BankId, before: datetime, keep: int | None) -> None:
    _TRIM.execute(connection, {"bank": bank_id, "before": before})
    left = [] if keep is None else _ASKED.all(connection, {"bank": bank_id})
    if keep is not None and len(left) > keep:
        first = before.date().isoformat()
        most = sorted(left, key=lambda row: -sum(number for day, number in row.days.items() if day >= first))
        deletion = delete(views).where(*_QUESTIONS, views.c.key.in_([row.key for row in most[keep:]]))
        connection.execute(deletion, {"bank": bank_id})


def _hits(stored: Sequence[Any]) -> Sequence[ViewHit]:
    return tuple(ViewHit(Layer(layer), number, score, parts) for layer, number, score, parts in stored)


def _view(row: Any) -> ReadyView:
    return ReadyView(
        bank_id=BankId(row.bank_id), kind=ViewKind(row.kind), key=row.key, asked=row.asked, limit=row.limit,
        days=row.days, asked_at=row.asked_at, stamp=row.stamp, depth=row.depth, hits=_hits(row.hits),
        made_at=row.made_at,
    )  # fmt: skip
