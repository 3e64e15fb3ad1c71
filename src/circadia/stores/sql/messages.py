"""Message rows."""

from collections.abc import Collection, Sequence
from typing import Any, Final

from sqlalchemy import Row, bindparam, insert, select

from circadia.ids import AgentId, MessageId, SessionId, ThreadId
from circadia.records.message import DeliveryState, Message, MessageType, Priority
from circadia.stores.locks import agent_key, request_key
from circadia.stores.sql.link import Runner
from circadia.stores.sql.message_index import index_next_messages
from circadia.stores.sql.schema import deliveries, messages
from circadia.stores.sql.statement import Statement

_FIELDS: Final = tuple(column.name for column in messages.c if column.name not in ("number", "indexed"))
_ADD = Statement(insert(messages).inline().returning(messages.c.id, messages.c.number), _FIELDS)
_BY_ID = Statement(select(messages).where(messages.c.id == bindparam("key_id")))
_BY_KEY = Statement(select(messages).where(messages.c.key == bindparam("idempotency")))
_OF_ROOT = Statement(select(messages).where(messages.c.root_id == bindparam("root")).order_by(messages.c.number))
_DELIVER = Statement(
    # The message's number is looked up, so that both statements make one trip: see `BatchExecutor`.
    insert(deliveries)
    .inline()
    .values(number=select(messages.c.number).where(messages.c.id == bindparam("key_id")).scalar_subquery()),
    ("agent_id", "message_id", "state", "mentioned", "priority", "missed", "key_id"),
)
_OF_THREAD = Statement(
    select(messages)
    .where(messages.c.thread_id == bindparam("thread_id"), messages.c.number > bindparam("after"))
    .order_by(messages.c.number)
    .limit(bindparam("most"))
)
_LATEST = Statement(
    select(messages)
    .where(messages.c.thread_id == bindparam("thread_id"))
    .order_by(messages.c.number.desc())
    .limit(bindparam("most"))
)


class Messages:
    def __init__(self, runner: Runner) -> None:
        self._run = runner.run
        self._hold = runner.hold
        self._keep = runner.queue_write

    async def add(
        self, message: Message, to: Collection[tuple[AgentId, bool]], *, missed: Collection[AgentId] = ()
    ) -> None:
        """Store a message with one unread delivery per (agent, mentioned), and assign its number.

        `missed` are those that it found awake, so that it woke them not.
        """
        await self._hold(*(agent_key(agent_id) for agent_id, _ in to))
        values = _values(message)
        self._keep(_ADD, [values[name] for name in _FIELDS])
        for agent_id, mentioned in to:
            state, rank = DeliveryState.UNREAD.value, message.priority.rank
            self._keep(_DELIVER, (agent_id, message.id, state, mentioned, rank, agent_id in missed, message.id))

    async def get(self, message_id: MessageId) -> Message | None:
        row = await self._run(lambda connection: _BY_ID.first(connection, {"key_id": message_id}))
        return None if row is None else message_of(row)

    async def get_by_key(self, key: str) -> Message | None:
        await self._hold(request_key(key))
        row = await self._run(lambda connection: _BY_KEY.first(connection, {"idempotency": key}))
        return None if row is None else message_of(row)

    async def find_by_root(self, root_id: str) -> Sequence[Message]:
        """Return the messages of a chain in order."""
        rows = await self._run(lambda connection: _OF_ROOT.all(connection, {"root": root_id}))
        return [message_of(row) for row in rows]

    async def find_by_thread(self, thread_id: ThreadId, *, after: int = 0, limit: int = 100) -> Sequence[Message]:
        """Return messages with a number greater than `after`, in order."""
        values = {"thread_id": thread_id, "after": after, "most": limit}
        rows = await self._run(lambda connection: _OF_THREAD.all(connection, values))
        return [message_of(row) for row in rows]

    async def find_latest(self, thread_id: ThreadId, *, limit: int) -> Sequence[Message]:
        """Return the last messages in order."""
        values = {"thread_id": thread_id, "most": limit}
        rows = await self._run(lambda connection: _LATEST.all(connection, values))
        return [message_of(row) for row in reversed(rows)]

    async def index_next(self, *, limit: int) -> int:
        """Add up to `limit` new messages to the inbox index, which speeds up searches; return their number."""
        return await self._run(lambda connection: index_next_messages(connection, limit))


def message_of(row: Row[Any]) -> Message:
    """Return the message of a row that has all columns of `messages` under their names."""
    return Message(
        id=MessageId(row.id),
        number=row.number,
        thread_id=ThreadId(row.thread_id),
        session_id=SessionId(row.session_id),
        sender_id=None if row.sender_id is None else AgentId(row.sender_id),
        sender=row.sender,
        content=row.content,
        mentions=tuple(row.mentions),
        at=row.at,
        type=MessageType(row.type),
        priority=Priority.from_rank(row.priority),
        reply_to=None if row.reply_to is None else MessageId(row.reply_to),
        key=row.key,
        root_id=row.root_id,
        parent_id=row.parent_id,
        depth=row.depth,
    )


def _values(message: Message) -> dict[str, object]:
    return {
        "id": message.id,
        "thread_id": message.thread_id,
        "session_id": message.session_id,
        "sender_id": message.sender_id,
        "sender": message.sender,
        "content": message.content,
        "mentions": message.mentions,
        "at": message.at,
        "type": message.type.value,
        "priority": message.priority.rank,
        "reply_to": message.reply_to,
        "key": message.key,
        "root_id": message.root_id,
        "parent_id": message.parent_id,
        "depth": message.depth,
    }
