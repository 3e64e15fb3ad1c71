"""Tokens of people, and the codes of sign-in links that were used."""

from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime
from operator import attrgetter
from typing import Any, Final

from sqlalchemy import Column, Index, Row, String, Table, bindparam, delete, select

from circadia.records.principal import AccessRole, AccessToken
from circadia.stores.sql.link import Runner
from circadia.stores.sql.schema import Instant, metadata
from circadia.stores.sql.statement import Statement
from circadia.stores.sql.upsert import Upsert

access_tokens = Table(
    "access_tokens",
    metadata,
    Column("name", String, primary_key=True),
    Column("role", String, nullable=False),
    Column("token_hash", String, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("created_by", String, nullable=False),
)
Index("access_tokens_hash", access_tokens.c.token_hash, unique=True)
used_links = Table(
    "used_links", metadata, Column("code_hash", String, primary_key=True), Column("expires_at", Instant, nullable=False)
)

_FIELDS: Final = tuple(field.name for field in fields(AccessToken))
_ROW = attrgetter(*_FIELDS)
_ADD = Statement(Upsert(access_tokens), _FIELDS)
_REMOVE = Statement(delete(access_tokens).where(access_tokens.c.name == bindparam("key")))
_BY_HASH = Statement(select(access_tokens).where(access_tokens.c.token_hash == bindparam("hashed")))
_ALL = Statement(select(access_tokens).order_by(access_tokens.c.name))
_USE = Statement(Upsert(used_links), ("code_hash", "expires_at"))
_EXPIRE = Statement(delete(used_links).where(used_links.c.expires_at < bindparam("now")))


class SqlAccessTokens:
    def __init__(self, runner: Runner) -> None:
        self._run = runner.run

    async def add(self, token: AccessToken) -> bool:
        values = dict(zip(_FIELDS, _ROW(token), strict=True))
        return await self._run(lambda connection: _ADD.execute(connection, values) == 1)

    async def remove(self, name: str) -> bool:
        return await self._run(lambda connection: _REMOVE.execute(connection, {"key": name}) == 1)

    async def get_by_hash(self, token_hash: str) -> AccessToken | None:
        row = await self._run(lambda connection: _BY_HASH.first(connection, {"hashed": token_hash}))
        return None if row is None else _token(row)

    async def find_all(self) -> Sequence[AccessToken]:
        return [_token(row) for row in await self._run(_ALL.all)]

    async def use_link(self, code_hash: str, expires_at: datetime, now: datetime) -> bool:
        await self._run(lambda connection: _EXPIRE.execute(connection, {"now": now}))
        values = {"code_hash": code_hash, "expires_at": expires_at}
        return await self._run(lambda connection: _USE.execute(connection, values) == 1)


def _token(row: Row[Any]) -> AccessToken:
    values: dict[str, Any] = {name: getattr(row, name) for name in _FIELDS}
    values["role"] = AccessRole(row.role)
    return AccessToken(**values)
