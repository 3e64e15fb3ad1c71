"""Message rows."""

from collections.abc import Collection, Sequence
from typing import Final

from sqlalchemy import bindparam, insert, select

from circadia.ids import AgentId, MessageId, ThreadId
from circadia.records.message import DeliveryState, Message, Priority
from circadia.stores.locks import agent_key, request_key
from circadia.stores.sql.message_index import index_next_messages
from circadia.stores.sql.noun import Noun
from circadia.stores.sql.row_mapping import build_reader, build_writer
from circadia.stores.sql.schema import deliveries, messages
from circadia.stores.sql.statement import Statement

_FIELDS: Final = tuple(column.name for column in messages.c if column.name not in ("number", "indexed"))
read_message = build_reader(Message, priority=tuple(Priority).__getitem__)
_write_message = build_writer(_FIELDS, priority=lambda message: message.priority.rank)
_ADD = Statement(insert(messages).inline().returning(messages.c.id, messages.c.number), _FIELDS)
_SELECT = Statement(select(messages).where(messages.c.id == bindparam("key_id")), read=read_message)
_SELECT_BY_KEY = Statement(select(messages).where(messages.c.key == bindparam("idempotency")), read=read_message)
_SELECT_OF_ROOT = Statement(
    select(messages).where(messages.c.root_id == bindparam("root")).order_by(messages.c.number), read=read_message
)
_ADD_DELIVERY = Statement(
    # The message's number is looked up, so that both statements make one trip: see `BatchExecutor`.
    insert(deliveries)
    .inline()
    .values(number=select(messages.c.number).where(messages.c.id == bindparam("key_id")).scalar_subquery()),
    ("agent_id", "message_id", "state", "mentioned", "priority", "missed", "key_id"),
)
_SELECT_OF_THREAD = Statement(
    select(messages)
    .where(messages.c.thread_id == bindparam("thread_id"), messages.c.number > bindparam("after"))
    .order_by(messages.c.number)
    .limit(bindparam("most")),
    read=read_message,
)
_SELECT_BEFORE = Statement(
    select(messages)
    .where(messages.c.thread_id == bindparam("thread_id"), messages.c.number < bindparam("before"))
    .order_by(messages.c.number.desc())
    .limit(bindparam("most")),
    read=read_message,
)
_SELECT_LATEST = Statement(
    select(messages)
    .where(messages.c.thread_id == bindparam("thread_id"))
    .order_by(messages.c.number.desc())
    .limit(bindparam("most")),
    read=read_message,
)


class Messages(Noun):
    async def add(
        self, message: Message, to: Collection[tuple[AgentId, bool]], *, missed: Collection[AgentId] = ()
    ) -> None:
        """Store a message with one unread delivery per (agent, mentioned), and assign its number.

        `missed` are those that it found awake, so that it woke them not.
        """
        await self._hold(*(agent_key(agent_id) for agent_id, _ in to))
        self._queue_write(_ADD, _write_message(message))
        for agent_id, mentioned in to:
            state, rank = DeliveryState.UNREAD.value, message.priority.rank
            self._queue_write(
                _ADD_DELIVERY, (agent_id, message.id, state, mentioned, rank, agent_id in missed, message.id)
            )

    async def get(self, message_id: MessageId) -> Message | None:
        return await self._first(_SELECT, {"key_id": message_id})

    async def get_by_key(self, key: str) -> Message | None:
        await self._hold(request_key(key))
        return await self._first(_SELECT_BY_KEY, {"idempotency": key})

    async def find_keys(self, keys: Sequence[str]) -> Collection[str]:
        """Return those of these keys that messages have. The block must exclude in its own way that one is added."""
        if not keys:
            return ()
        known = select(messages.c.key).where(messages.c.key.in_(keys))
        return await self._run(lambda connection: connection.execute(known).scalars().all())

    async def find_by_root(self, root_id: str) -> Sequence[Message]:
        """Return the messages of a chain in order."""
        return await self._all(_SELECT_OF_ROOT, {"root": root_id})

    async def find_by_thread(self, thread_id: ThreadId, *, after: int = 0, limit: int = 100) -> Sequence[Message]:
        """Return messages with a number greater than `after`, in order."""
        return await self._all(_SELECT_OF_THREAD, {"thread_id": thread_id, "after": after, "most": limit})

    async def find_before(self, thread_id: ThreadId, before: int, *, limit: int) -> Sequence[Message]:
        """Return messages with a number less than `before`, newest first."""
        return await self._all(_SELECT_BEFORE, {"thread_id": thread_id, "before": before, "most": limit})

    async def find_latest(self, thread_id: ThreadId, *, limit: int) -> Sequence[Message]:
        """Return the last messages in order."""
        return (await self._all(_SELECT_LATEST, {"thread_id": thread_id, "most": limit}))[::-1]

    async def index_next(self, *, limit: int) -> int:
        """Add up to `limit` new messages to the inbox index, which speeds up searches; return their number."""
        return await self._run(lambda connection: index_next_messages(connection, limit))
