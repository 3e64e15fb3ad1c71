"""Hooks that people define over REST, and the deliveries that hooks have accepted (WAKE-82)."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Final

from sqlalchemy import JSON, Column, Index, String, Table, bindparam, delete, func, insert, select

from circadia.records.hook import Hook, HookDelivery, HookSpec
from circadia.stores.locks import HOOKS_KEY
from circadia.stores.sql.noun import Noun
from circadia.stores.sql.row_mapping import build_reader, build_writer
from circadia.stores.sql.schema import Instant, metadata
from circadia.stores.sql.statement import Statement
from circadia.stores.sql.upsert import Upsert

hooks = Table(
    "hooks",
    metadata,
    Column("name", String, primary_key=True),
    Column("spec", JSON, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("created_by", String, nullable=False),
)
hook_deliveries = Table(
    "hook_deliveries",
    metadata,
    Column("hook", String, primary_key=True),
    Column("delivery_id", String, primary_key=True),
    Column("digest", String, nullable=False),
    Column("at", Instant, nullable=False),
    Column("message_id", String),
    Column("wake_id", String),
)
Index("hook_deliveries_digest", hook_deliveries.c.hook, hook_deliveries.c.digest)
Index("hook_deliveries_hook", hook_deliveries.c.hook, hook_deliveries.c.at, hook_deliveries.c.delivery_id)
Index("hook_deliveries_at", hook_deliveries.c.at)

_COLUMNS: Final = ("name", "spec", "created_at", "created_by")
_read_hook = build_reader(Hook, of_row={"in_file": lambda _: False}, spec=HookSpec.model_validate)
_write_hook = build_writer(_COLUMNS, spec=lambda hook: hook.spec.model_dump(mode="json", exclude_defaults=True))
_PUT: Final = Statement(Upsert(hooks, keys=("name",), new=("spec", "created_at", "created_by")), _COLUMNS)
_SELECT: Final = Statement(select(hooks).where(hooks.c.name == bindparam("key")), read=_read_hook)
_SELECT_ALL: Final = Statement(select(hooks).order_by(hooks.c.name), read=_read_hook)
_COUNT: Final = Statement(select(func.count()).select_from(hooks))
_DELETE: Final = Statement(delete(hooks).where(hooks.c.name == bindparam("key")))

_FIELDS: Final = tuple(field.name for field in fields(HookDelivery))
_read_delivery = build_reader(HookDelivery)
_write_delivery = build_writer(_FIELDS)
_ADD_DELIVERY: Final = Statement(insert(hook_deliveries).inline(), _FIELDS)
_IS_OF_HOOK: Final = hook_deliveries.c.hook == bindparam("name")
_FIND_BY_ID: Final = Statement(
    select(hook_deliveries.c.hook).where(_IS_OF_HOOK, hook_deliveries.c.delivery_id == bindparam("key"))
)
_FIND_BY_DIGEST: Final = Statement(
    select(hook_deliveries.c.hook).where(_IS_OF_HOOK, hook_deliveries.c.digest == bindparam("hashed")).limit(1)
)
_SELECT_NEWEST: Final = Statement(
    select(hook_deliveries)
    .where(_IS_OF_HOOK)
    .order_by(hook_deliveries.c.at.desc(), hook_deliveries.c.delivery_id.desc())
    .limit(bindparam("most")),
    read=_read_delivery,
)


class Hooks(Noun):
    """Hooks that people define over REST."""

    async def put(self, hook: Hook) -> None:
        """Store a hook; it replaces the one of its name."""
        await self._hold(HOOKS_KEY)
        await self._write(_PUT, _write_hook(hook))

    async def get(self, name: str) -> Hook | None:
        return await self._first(_SELECT, {"key": name})

    async def find_all(self) -> Sequence[Hook]:
        """Return all hooks, by name."""
        return await self._all(_SELECT_ALL)

    async def count(self) -> int:
        return await self._scalar(_COUNT)

    async def remove(self, name: str) -> None:
        await self._hold(HOOKS_KEY)
        await self._execute(_DELETE, {"key": name})


class HookDeliveries(Noun):
    """Accepted deliveries. Whoever adds one holds the keys of its id and of its digest (`request_key`)."""

    async def add(self, delivery: HookDelivery) -> None:
        await self._write(_ADD_DELIVERY, _write_delivery(delivery))

    async def is_known(self, hook: str, delivery_id: str, digest: str) -> bool:
        """Return whether the hook has accepted a delivery with this id, or one that was signed alike."""
        if await self._first(_FIND_BY_ID, {"name": hook, "key": delivery_id}) is not None:
            return True
        return await self._first(_FIND_BY_DIGEST, {"name": hook, "hashed": digest}) is not None

    async def find_newest(self, hook: str, *, limit: int) -> Sequence[HookDelivery]:
        """Return the last deliveries of a hook, newest first."""
        return await self._all(_SELECT_NEWEST, {"name": hook, "most": limit}, short=False)
