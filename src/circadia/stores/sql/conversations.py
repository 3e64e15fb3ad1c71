"""Conversation rows (GATE-67).

A call looks its conversation up while its caller waits, so every look-up is by index and reads one row for each key,
however many conversations begin with the same words (LARGE-03).
"""

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, Final

import orjson
from sqlalchemy import (
    ColumnElement,
    Connection,
    ScalarSelect,
    Select,
    String,
    and_,
    any_,
    bindparam,
    case,
    func,
    literal_column,
    or_,
    select,
    union_all,
)

from circadia.ids import AgentId, ConversationId
from circadia.records.conversation import SEVERAL, Conversation
from circadia.stores.sql.name_list import list_texts
from circadia.stores.sql.noun import Noun
from circadia.stores.sql.row_mapping import build_reader, build_writer
from circadia.stores.sql.schema import conversations
from circadia.stores.sql.statement import Statement
from circadia.stores.sql.upsert import Columns, Upsert

_FIELDS: Final = tuple(field.name for field in fields(Conversation))
_KEYS: Final = ("agent_id", "id")
_write_conversation = build_writer(_FIELDS)


def _merge_end_users(before: Columns, new: Columns) -> ColumnElement[Any]:
    """Return the expression of `records.conversation.merge_end_users`."""
    one = or_(before.end_user.is_(None), before.end_user == new.end_user)
    return case(
        (new.end_user.is_(None), before.end_user), (one, new.end_user), else_=literal_column(repr(SEVERAL), String)
    )


def _keep_latest_additions(before: Columns, new: Columns) -> ColumnElement[Any]:
    return case((and_(new.additions != "", new.at >= before.at), new.additions), else_=before.additions)


def _keep_latest(name: str) -> Callable[[Columns, Columns], ColumnElement[Any]]:
    return lambda before, new: case((new.at >= before.at, new[name]), else_=before[name])


_read_conversation = build_reader(Conversation)
_ADD = Statement(
    Upsert(
        conversations,
        keys=_KEYS,
        more=("turns", "version"),
        merged={
            "end_user": _merge_end_users,
            "additions": _keep_latest_additions,
            **{name: _keep_latest(name) for name in ("head", "handle", "at")},
        },
    ),
    _FIELDS,
)
_SELECT = Statement(
    select(conversations).where(
        conversations.c.agent_id == bindparam("agent_id"), conversations.c.id == bindparam("key")
    ),
    read=_read_conversation,
)


def _build_find(connection: Connection) -> Select[Any]:
    """Build the query for a name and for heads, a JSON list of strings."""
    heads = list_texts(connection, "heads")
    name = bindparam("name", type_=String)
    ids = union_all(
        select(name), select(_newest_id("handle", name)), select(_newest_id("head", heads.c.value)).select_from(heads)
    )
    # As an array, the ids are looked up by key whatever the planner thinks of the agent's number of conversations.
    found = any_(func.array(ids.scalar_subquery()))
    is_listed = conversations.c.id == found if connection.dialect.name == "postgresql" else conversations.c.id.in_(ids)
    return select(conversations).where(conversations.c.agent_id == bindparam("agent_id"), is_listed)


def _newest_id(column: str, value: ColumnElement[Any]) -> ScalarSelect[Any]:
    rows = conversations.alias()
    is_of_agent = rows.c.agent_id == bindparam("agent_id")
    return (
        select(rows.c.id)
        .where(is_of_agent, rows.c[column] == value, rows.c[column] != literal_column("''", String))
        .order_by(rows.c.at.desc())
        .limit(1)
        .correlate_except(rows)
        .scalar_subquery()
    )


_SELECT_FOUND = Statement(_build_find, read=_read_conversation)


class Conversations(Noun):
    """Access to conversations (GATE-67)."""

    async def get(self, agent_id: AgentId, conversation_id: ConversationId) -> Conversation | None:
        return await self._first(_SELECT, {"agent_id": agent_id, "key": conversation_id}, short=True, single="read")

    async def find(self, agent_id: AgentId, heads: Sequence[str], *, name: str | None) -> Sequence[Conversation]:
        """Return the agent's conversation with this id, its newest with this handle, and its newest for each head."""
        values = {"agent_id": agent_id, "heads": orjson.dumps(heads).decode(), "name": name}
        return await self._all(_SELECT_FOUND, values, short=True, single="read")

    async def add(self, conversations: Sequence[Conversation]) -> None:
        """Insert conversations, or add to the existing ones: turns and versions are summed, and end users merged.

        The row with the latest time decides head and handle.
        """
        if conversations:
            rows = sorted(map(_write_conversation, conversations), key=lambda row: row[:2])
            await self._run(lambda connection: _ADD.run_many(connection, rows))
