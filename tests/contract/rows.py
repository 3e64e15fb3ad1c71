"""Rows for the tests of stores."""

from datetime import UTC, datetime, timedelta
from typing import Final

from circadia.ids import AgentId, CallId, ConversationId, MessageId, SessionId, ThreadId
from circadia.records.agent import Agent
from circadia.records.call import Call, CallStatus
from circadia.records.conversation import Conversation
from circadia.records.event import Event, EventType
from circadia.records.message import Message
from circadia.records.retention import RetentionKind
from circadia.records.session import Session, SessionStatus
from circadia.records.thread import Thread, ThreadStatus
from circadia.stores.base import Store, Tx

T0: Final = datetime(2026, 3, 29, 0, 59, 59, 123457, tzinfo=UTC)


def at(seconds: float) -> datetime:
    """Return the instant so long after T0."""
    return T0 + timedelta(seconds=seconds)


def session(name: str = "default", *, key: str = "", created: float = 0, touched: float = 0) -> Session:
    return Session(
        id=SessionId(key or f"ses_{name}"),
        name=name,
        status=SessionStatus.OPEN,
        created_at=at(created),
        touched_at=at(touched),
    )


def agent(name: str = "ada", *, key: str = "", of: str = "default", asleep: bool = False) -> Agent:
    key = key or f"agt_{of}_{name}"
    return Agent(
        id=AgentId(key),
        session_id=SessionId(f"ses_{of}"),
        session=of,
        name=name,
        token_hash=f"hash of {key}",
        asleep=asleep,
        since=T0,
        created_at=T0,
    )


def thread(name: str = "plan", *, of: str = "default", created: float = 0) -> Thread:
    return Thread(
        id=ThreadId(f"thr_{of}_{name}"),
        session_id=SessionId(f"ses_{of}"),
        name=name,
        status=ThreadStatus.OPEN,
        created_by="operator",
        created_at=at(created),
    )


def message(key: str, *, to: Thread, sender: Agent | None = None, content: str = "hello") -> Message:
    return Message(
        id=MessageId(key),
        number=0,
        thread_id=to.id,
        session_id=to.session_id,
        sender_id=sender and sender.id,
        sender=sender.name if sender else "operator",
        content=content,
        at=T0,
    )


def event(tag: object = None, *, kind: EventType = EventType.MESSAGE, session: str | None = None) -> Event:
    return Event(type=kind, at=T0, session=session, data={"tag": tag})


def call(key: str, *, by: Agent, seconds: float = 0, status: CallStatus = CallStatus.DONE) -> Call:
    return Call(
        id=CallId(key),
        at=at(seconds),
        agent_id=by.id,
        session=by.session,
        agent=by.name,
        upstream="openai",
        endpoint="chat_completions",
        model="gpt",
        status=status,
    )


def conversation(key: str, *, of: Agent, head: str = "", seconds: float = 0) -> Conversation:
    return Conversation(id=ConversationId(key), agent_id=of.id, head=head, at=at(seconds))


async def stored(store: Store, *rows: Session | Agent | Thread) -> None:
    """Store rows, in the order given."""
    async with store.begin_write() as tx:
        for row in rows:
            if isinstance(row, Session):
                await tx.sessions.add(row)
            elif isinstance(row, Agent):
                await tx.agents.add(row)
            else:
                await tx.threads.add(row)


async def expire(tx: Tx, before: datetime, *kinds: RetentionKind) -> int:
    """Delete all old rows of these kinds; return their number."""
    deleted = 0
    for what in kinds:
        after, is_full = None, True
        while is_full:
            page = await tx.retention.delete_page(what, before, limit=500, after=after)
            deleted, after, is_full = deleted + page.deleted, page.last, page.is_full
    return deleted


async def put(store: Store, tag: object) -> None:
    """Store an event in a block of its own."""
    async with store.begin_write() as tx:
        await tx.events.add([event(tag)])


async def sent(tx: Tx, tag: object) -> None:
    """Store an event, and have the block send it now and not at its end."""
    await tx.events.add([event(tag)])
    assert await tx.events.last_number() > 0 or await tx.events.has_unnumbered()


async def number_events(store: Store) -> None:
    """Give all committed events their numbers, as a server does."""
    async with store.begin_write() as tx:
        await tx.events.assign_numbers()


async def tags(store: Store) -> list[object]:
    """Return the tags of all events, in order."""
    await number_events(store)
    return await read_tags(store)


async def read_tags(store: Store) -> list[object]:
    """Return the tags of the events that have a number, in order."""
    async with store.begin_read() as tx:
        return [event.data["tag"] for event in await tx.events.find_after(0, limit=100_000)]
