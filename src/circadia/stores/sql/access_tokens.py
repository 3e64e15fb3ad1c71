"""Tokens of people, and the codes of sign-in links that were used."""

from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime
from typing import Final

from sqlalchemy import Column, Index, String, Table, bindparam, delete, select

from circadia.records.principal import AccessToken
from circadia.stores.sql.noun import Noun
from circadia.stores.sql.row_mapping import build_reader, build_writer
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
_write_token = build_writer(_FIELDS)
_read_token = build_reader(AccessToken)
_ADD = Statement(Upsert(access_tokens), _FIELDS)
_DELETE = Statement(delete(access_tokens).where(access_tokens.c.name == bindparam("key")))
_SELECT_BY_HASH = Statement(
    select(access_tokens).where(access_tokens.c.token_hash == bindparam("hashed")), read=_read_token
)
_SELECT_ALL = Statement(select(access_tokens).order_by(access_tokens.c.name), read=_read_token)
_USE_LINK = Statement(Upsert(used_links), ("code_hash", "expires_at"))
_DELETE_EXPIRED_LINKS = Statement(delete(used_links).where(used_links.c.expires_at < bindparam("now")))


class AccessTokens(Noun):
    """Tokens of people. A revoked token is deleted; events tell who had it."""

    async def add(self, token: AccessToken) -> bool:
        """Add a token; return False if there is one of this name."""
        return await self._write(_ADD, _write_token(token)) == 1

    async def remove(self, name: str) -> bool:
        """Delete a token; return False if there is none of this name."""
        return await self._execute(_DELETE, {"key": name}) == 1

    async def get_by_hash(self, token_hash: str) -> AccessToken | None:
        return await self._first(_SELECT_BY_HASH, {"hashed": token_hash})

    async def find_all(self) -> Sequence[AccessToken]:
        """Return all tokens, by name."""
        return await self._all(_SELECT_ALL)

    async def use_link(self, code_hash: str, expires_at: datetime, now: datetime) -> bool:
        """Mark the code of a sign-in link as used; return False if it was used before. Forget expired ones."""
        await self._execute(_DELETE_EXPIRED_LINKS, {"now": now})
        return await self._execute(_USE_LINK, {"code_hash": code_hash, "expires_at": expires_at}) == 1
