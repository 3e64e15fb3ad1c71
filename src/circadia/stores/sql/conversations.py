"""Conversation rows (GATE-67)."""

from collections.abc import Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any, Final

from sqlalchemy import Row, bindparam, select

from circadia.ids import AgentId, ConversationId
from circadia.records.conversation import Conversation
from circadia.stores.sql.link import Runner
from circadia.stores.sql.schema import conversations
from circadia.stores.sql.short_reads import ShortRead
from circadia.stores.sql.statement import Statement
from circadia.stores.sql.upsert import Upsert

_FIELDS: Final = tuple(field.name for field in fields(Conversation))
_KEYS: Final = ("agent_id", "id")
_ROW = attrgetter(*_FIELDS)
_PUT = Statement(Upsert(conversations, keys=_KEYS, new=[name for name in _FIELDS if name not in _KEYS]), _FIELDS)
_GET = Statement(
    select(conversations).where(
        conversations.c.agent_id == bindparam("agent_id"), conversations.c.id == bindparam("key")
    )
)
_LATEST = Statement(select(conversations).order_by(conversations.c.at.desc()).limit(bindparam("most")))


class SqlConversations:
    def __init__(self, runner: Runner) -> None:
        self._run = runner.run

    async def get(self, agent_id: AgentId, conversation_id: ConversationId) -> Conversation | None:
        values = {"agent_id": agent_id, "key": conversation_id}
        row = await self._run(ShortRead(lambda connection: _GET.first(connection, values)))
        return None if row is None else _conversation(row)

    async def find_latest(self, limit: int) -> Sequence[Conversation]:
        rows = await self._run(lambda connection: _LATEST.all(connection, {"most": limit}))
        return [_conversation(row) for row in rows]

    async def put(self, conversations: Sequence[Conversation]) -> None:
        if conversations:
            rows = sorted((_ROW(row) for row in conversations), key=lambda row: row[:2])
            await self._run(lambda connection: _PUT.run_many(connection, rows))


def _conversation(row: Row[Any]) -> Conversation:
    return Conversation(
        id=ConversationId(row.id),
        agent_id=AgentId(row.agent_id),
        end_user=row.end_user,
        turns=row.turns,
        version=row.version,
        head=row.head,
        at=row.at,
    )
