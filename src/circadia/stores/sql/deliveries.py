"""Deliveries: the only table behind waits and inbox (GATE-71)."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    String,
    Update,
    and_,
    bindparam,
    delete,
    exists,
    func,
    literal_column,
    or_,
    select,
    text,
    tuple_,
    update,
)

from circadia.ids import AgentId, MessageId, PulseId
from circadia.records.message import DELIVERY_MOVES, Delivery, DeliveryState
from circadia.records.thread import ThreadStatus
from circadia.stores.locks import RETENTION_KEY, agent_key
from circadia.stores.sql.inbox import BEGIN, InboxPageQuery, fetch_page, find_place, search_page, select_deliveries
from circadia.stores.sql.message_index import remove_from_index
from circadia.stores.sql.messages import read_message
from circadia.stores.sql.noun import Noun
from circadia.stores.sql.row_mapping import build_reader
from circadia.stores.sql.schema import Instant, agents, deliveries, delivery_counts, messages, threads, wakes
from circadia.stores.sql.statement import Statement

_read_delivery = build_reader(Delivery, of_row={"message": read_message})
_ROWS = select_deliveries(deliveries)
_OF_AGENT = _ROWS.where(deliveries.c.agent_id == bindparam("agent_id"))
_UNREAD = _OF_AGENT.where(deliveries.c.state == DeliveryState.UNREAD.value)
_IS_MENTION: Final = text("deliveries.mentioned")  # the form of the index `deliveries_mentioned`
_SELECT = Statement(_OF_AGENT.where(deliveries.c.message_id == bindparam("message_id")), read=_read_delivery)
_SELECT_UNREAD_COUNTS = select(
    delivery_counts.c.agent_id,
    delivery_counts.c.number.label("count"),
    select(func.max(deliveries.c.number))
    .where(deliveries.c.agent_id == delivery_counts.c.agent_id, deliveries.c.state == DeliveryState.UNREAD.value)
    .scalar_subquery()
    .label("newest"),
).where(
    delivery_counts.c.agent_id.in_(bindparam("agents", expanding=True)),
    delivery_counts.c.state == DeliveryState.UNREAD.value,
    delivery_counts.c.number > 0,
)
_AGENTS_PER_STATEMENT: Final = 1_000
"""Agents per statement: drivers limit the number of values."""
_SELECT_COUNTS = Statement(
    select(delivery_counts.c.state, delivery_counts.c.number).where(delivery_counts.c.agent_id == bindparam("agent_id"))
)


def _build_move(to: DeliveryState, *origins: DeliveryState) -> Update:
    """Build the update that moves an agent's deliveries from `origins`, as `DELIVERY_MOVES` allows."""
    return (
        update(deliveries)
        .where(
            deliveries.c.agent_id == bindparam("agent"),
            deliveries.c.message_id.in_(bindparam("ids", expanding=True)),
            _may_move(to, *origins),
        )
        .values(
            state=to.value,
            leased_until=bindparam("until"),
            snoozed=bindparam("snoozed"),
            seen_at=func.coalesce(deliveries.c.seen_at, bindparam("seen", type_=Instant)),
            ended_at=bindparam("ended"),
        )
        .returning(deliveries.c.message_id)
    )


def _may_move(to: DeliveryState, *origins: DeliveryState) -> ColumnElement[bool]:
    # As an expression that no index has: else PostgreSQL may read all of an agent's deliveries in these states.
    present = func.coalesce(deliveries.c.state, literal_column("''"))
    return present.in_([state.value for state in origins if to in DELIVERY_MOVES[state]])


_LEASE = _build_move(DeliveryState.LEASED, DeliveryState.UNREAD)
_MARK_HANDLED = _build_move(DeliveryState.HANDLED, DeliveryState.UNREAD, DeliveryState.LEASED, DeliveryState.DEAD)
_RELEASE = _build_move(DeliveryState.UNREAD, DeliveryState.LEASED)
_MARK_DEAD = _build_move(DeliveryState.DEAD, DeliveryState.UNREAD, DeliveryState.LEASED)
_REQUEUE = _build_move(DeliveryState.UNREAD, DeliveryState.DEAD)
# One by one: for a list, PostgreSQL's plan for all values reads an agent's deliveries, which it takes to be few.
_MARK_SEEN = Statement(
    update(deliveries)
    .where(
        deliveries.c.agent_id == bindparam("agent"),
        deliveries.c.message_id == bindparam("message"),
        deliveries.c.seen_at.is_(None),
    )
    .values(seen_at=bindparam("now", type_=Instant)),
    ["agent", "message", "now"],
)
_MARK_NOTICED = Statement(
    update(deliveries)
    .where(deliveries.c.agent_id == bindparam("agent"), deliveries.c.message_id == bindparam("message"))
    .values(missed=False),
    ["agent", "message"],
)
_LEASE_FOR_PULSE = Statement(
    update(deliveries)
    .where(
        deliveries.c.agent_id == bindparam("agent"),
        deliveries.c.message_id == bindparam("message"),
        _may_move(DeliveryState.LEASED, DeliveryState.UNREAD),
    )
    .values(
        state=DeliveryState.LEASED.value,
        leased_until=None,
        pulse_id=bindparam("pulse", type_=String),
        snoozed=False,
        ended_at=None,
    ),
    ["agent", "message", "pulse"],
)
_IS_OF_PULSE = and_(
    deliveries.c.pulse_id == bindparam("pulse"),
    deliveries.c.state == DeliveryState.LEASED.value,
    deliveries.c.leased_until.is_(None),  # else it is snoozed, or in flight to a caller, and no longer the pulse's
)
_SELECT_OF_PULSE = Statement(select(deliveries.c.message_id).where(_IS_OF_PULSE))
_MARK_SEEN_BY_PULSE = Statement(
    update(deliveries)
    .where(_IS_OF_PULSE, deliveries.c.seen_at.is_(None))
    .values(seen_at=bindparam("now", type_=Instant)),
    ["pulse", "now"],
)
_MARK_HANDLED_BY_PULSE = Statement(
    update(deliveries)
    .where(_IS_OF_PULSE)
    .values(
        state=DeliveryState.HANDLED.value,
        seen_at=func.coalesce(deliveries.c.seen_at, bindparam("now", type_=Instant)),
        ended_at=bindparam("now", type_=Instant),
    ),
    ["pulse", "now"],
)
_UNHANDLED = (
    _ROWS.where(
        # A literal too: each database uses a partial index only if the statement shows that its condition holds.
        deliveries.c.state != text(f"'{DeliveryState.HANDLED.value}'"),
        deliveries.c.state == bindparam("in_state"),
        deliveries.c.number < bindparam("below"),
        # A value for each row, and no join: agents without dead letters are not read.
        select(agents.c.deleted_at).where(agents.c.id == deliveries.c.agent_id).scalar_subquery().is_(None),
    )
    .order_by(deliveries.c.number.desc(), deliveries.c.agent_id)
    .limit(bindparam("most"))
)
_UNHANDLED_ROWS = Statement(_UNHANDLED, read=_read_delivery)
_SELECT_OF_MESSAGE = Statement(_ROWS.where(deliveries.c.message_id == bindparam("message_id")), read=_read_delivery)
_SELECT_NUMBER = Statement(select(messages.c.number).where(messages.c.id == bindparam("message_id")))
_NO_END: Final = 2**63 - 1
IS_LEASED = deliveries.c.state == text(f"'{DeliveryState.LEASED.value}'")
"""A literal, not a parameter: SQLite uses a partial index only if the statement shows that its condition holds."""
_RELEASE_LEASES = (
    update(deliveries).where(IS_LEASED).values(state=DeliveryState.UNREAD.value, leased_until=None, snoozed=False)
)
_HAS_EXPIRED = (deliveries.c.leased_until <= bindparam("now"),)
_IS_WAIT = (deliveries.c.leased_until.is_not(None), deliveries.c.snoozed.is_(False))
_OLD_HANDLED = (
    select(deliveries.c.agent_id, deliveries.c.message_id)
    .where(deliveries.c.state == text(f"'{DeliveryState.HANDLED.value}'"))
    .where(deliveries.c.ended_at < bindparam("before"))
    .order_by(deliveries.c.ended_at)
    .limit(bindparam("most"))
)
_SELECT_OLD_HANDLED = Statement(_OLD_HANDLED)
_DELETE_OLD_HANDLED = Statement(
    delete(deliveries)
    .where(tuple_(deliveries.c.agent_id, deliveries.c.message_id).in_(_OLD_HANDLED))
    .returning(deliveries.c.message_id)
)
_REPLY = messages.alias("answer")
_DELETE_DIRECT_MESSAGES = (
    delete(messages)
    .where(
        messages.c.id.in_(bindparam("ids", expanding=True)),
        exists().where(threads.c.id == messages.c.thread_id, threads.c.status == ThreadStatus.DIRECT.value),
        ~exists().where(deliveries.c.message_id == messages.c.id),
        ~exists().where(wakes.c.message_id == messages.c.id),
        ~exists().where(_REPLY.c.reply_to == messages.c.id),
    )
    .returning(messages.c.number, messages.c.reply_to)
)


class Deliveries(Noun):
    """The only delivery table (GATE-71)."""

    async def find_unread(
        self,
        agent_id: AgentId,
        *,
        mentioned: bool | None = None,
        sender: str | None = None,
        newest: bool = False,
        limit: int = 50,
    ) -> Sequence[Delivery]:
        """Return the oldest unread deliveries, oldest first, or the `newest`, newest first."""
        await self._hold(agent_key(agent_id))
        statement = _UNREAD.limit(limit).order_by(deliveries.c.number.desc() if newest else deliveries.c.number)
        if mentioned is not None:
            statement = statement.where(_IS_MENTION if mentioned else deliveries.c.mentioned.is_(False))
        if sender is not None:
            one_of_them = messages.c.sender.startswith(f"{sender}/", autoescape=True)  # such as `operator/ann`
            statement = statement.where(or_(messages.c.sender == sender, one_of_them))
        short = None if sender is None else False  # it may pass over all that others have sent
        return await self._select(statement, _read_delivery, {"agent_id": agent_id}, short=short)

    async def count_unread_by_agent(self, agents: Sequence[AgentId]) -> Mapping[AgentId, tuple[int, int]]:
        """Return the unread count and the newest number for each of these agents with unread deliveries."""

        def work(connection: Connection) -> Sequence[Any]:
            parts = (agents[at : at + _AGENTS_PER_STATEMENT] for at in range(0, len(agents), _AGENTS_PER_STATEMENT))
            return [row for part in parts for row in connection.execute(_SELECT_UNREAD_COUNTS, {"agents": part})]

        return {AgentId(row.agent_id): (row.count, row.newest) for row in await self._run(work)}

    async def fetch_inbox(
        self,
        agent_id: AgentId,
        *,
        states: Collection[DeliveryState] = (DeliveryState.UNREAD,),
        words: str | None = None,
        urgent_first: bool = False,
        after: MessageId | None = None,
        limit: int = 50,
    ) -> Sequence[Delivery]:
        """Return deliveries in these states, oldest first, or urgent ones first.

        Each of `words` must match a word of the text or the start of one, ignoring case; a text without words matches
        nothing. `after` is the last delivery of the previous page.
        """
        await self._hold(agent_key(agent_id))

        def work(connection: Connection) -> Sequence[Delivery]:
            place = BEGIN if after is None else find_place(connection, agent_id, after)
            if place is None or not states:
                return ()
            page = InboxPageQuery(
                agent_id=agent_id, states=tuple(dict.fromkeys(states)), urgent_first=urgent_first, after=place,
                limit=limit,
            )  # fmt: skip
            rows = fetch_page(connection, page) if words is None else search_page(connection, page, words)
            return [_read_delivery(row) for row in rows]

        return await self._run(work)

    async def get(self, agent_id: AgentId, message_id: MessageId) -> Delivery | None:
        await self._hold(agent_key(agent_id))
        return await self._first(_SELECT, {"agent_id": agent_id, "message_id": message_id})

    async def count_by_state(self, agent_id: AgentId) -> Mapping[DeliveryState, int]:
        """Return the number of deliveries in each state, in constant time."""
        await self._hold(agent_key(agent_id))
        rows = await self._all(_SELECT_COUNTS, {"agent_id": agent_id})
        counts = {row.state: row.number for row in rows}
        return {state: counts.get(state.value, 0) for state in DeliveryState}

    async def find_sent(
        self, sender_id: AgentId, *, before: MessageId | None = None, limit: int = 50
    ) -> Sequence[Delivery]:
        """Return the deliveries of an agent's messages, newest first."""
        statement = _ROWS.where(messages.c.sender_id == sender_id).order_by(messages.c.number.desc()).limit(limit)
        if before is not None:
            number = select(messages.c.number).where(messages.c.id == before).scalar_subquery()
            statement = statement.where(messages.c.number < number)
        return await self._select(statement, _read_delivery)

    async def find_unhandled(
        self, states: Collection[DeliveryState], *, before: MessageId | None = None, limit: int
    ) -> Sequence[Delivery]:
        """Return the deliveries of all present agents in these states, none of them handled, newest message first."""

        def work(connection: Connection) -> Sequence[Delivery]:
            last = None if before is None else _SELECT_NUMBER.first(connection, {"message_id": before})
            values = {"below": _NO_END if last is None else last.number, "most": limit}
            found = [
                each for state in states for each in _UNHANDLED_ROWS.all(connection, {**values, "in_state": state})
            ]
            return sorted(found, key=lambda each: (-each.message.number, each.agent_id))[:limit]

        return await self._run(work)

    async def find_by_message(self, message_id: MessageId) -> Sequence[Delivery]:
        return await self._all(_SELECT_OF_MESSAGE, {"message_id": message_id})

    async def count_unread(self, agent_id: AgentId) -> int:
        """Return the number of unread deliveries in constant time."""
        return (await self.count_by_state(agent_id))[DeliveryState.UNREAD]

    async def lease(
        self,
        agent_id: AgentId,
        messages: Collection[MessageId],
        until: datetime | None,
        *,
        now: datetime,
        snoozed: bool = False,
    ) -> Sequence[MessageId]:
        """Lease unread deliveries, for a snooze or a response in flight; return those that were unread, in order."""
        return await self._move(_LEASE, agent_id, messages, until=until, seen=now, snoozed=snoozed)

    async def lease_for_pulse(self, agent_id: AgentId, messages: Collection[MessageId], pulse_id: PulseId) -> None:
        """Lease unread deliveries until the end of a pulse that has them in its prompt."""
        await self._hold(agent_key(agent_id))
        for message_id in messages:
            self._queue_write(_LEASE_FOR_PULSE, [agent_id, message_id, pulse_id], key=message_id)

    async def mark_seen_by_pulse(self, agent_id: AgentId, pulse_id: PulseId, now: datetime) -> None:
        """Record when the agent first received the messages in the prompt of its pulse: when that started."""
        await self._hold(agent_key(agent_id))
        self._queue_write(_MARK_SEEN_BY_PULSE, [pulse_id, now], key=pulse_id)

    async def mark_handled_by_pulse(self, agent_id: AgentId, pulse_id: PulseId, now: datetime) -> None:
        """Mark the unhandled messages in the pulse's prompt as handled."""
        await self._hold(agent_key(agent_id))
        self._queue_write(_MARK_HANDLED_BY_PULSE, [pulse_id, now], key=pulse_id)

    async def mark_handled(
        self, agent_id: AgentId, messages: Collection[MessageId], now: datetime
    ) -> Sequence[MessageId]:
        """Mark deliveries as handled; return those that changed."""
        return await self._move(_MARK_HANDLED, agent_id, messages, seen=now, ended=now)

    async def release(self, agent_id: AgentId, messages: Collection[MessageId]) -> Sequence[MessageId]:
        """Return leased deliveries to unread; return those that changed."""
        return await self._move(_RELEASE, agent_id, messages)

    async def mark_seen(self, agent_id: AgentId, messages: Collection[MessageId], now: datetime) -> None:
        """Record when the agent first received these."""
        await self._hold(agent_key(agent_id))
        if messages:
            rows = [(agent_id, message_id, now) for message_id in sorted(messages)]
            await self._run(lambda connection: _MARK_SEEN.run_many(connection, rows))

    async def mark_noticed(self, agent_id: AgentId, messages: Collection[MessageId]) -> None:
        """Mark deliveries as no longer missed: they have woken their agent, or asked for it."""
        await self._hold(agent_key(agent_id))
        for message_id in messages:
            self._queue_write(_MARK_NOTICED, [agent_id, message_id], key=message_id)

    async def mark_dead(self, agent_id: AgentId, messages: Collection[MessageId], now: datetime) -> Sequence[MessageId]:
        """Mark leased or unread deliveries as dead; return those that changed."""
        return await self._move(_MARK_DEAD, agent_id, messages, ended=now)

    async def requeue(self, agent_id: AgentId, messages: Collection[MessageId]) -> Sequence[MessageId]:
        """Return dead deliveries to unread; return those that changed."""
        return await self._move(_REQUEUE, agent_id, messages)

    async def find_leased_by_pulse(self, pulse_id: PulseId) -> Sequence[MessageId]:
        """Return the unhandled messages in the pulse's prompt."""
        rows = await self._all(_SELECT_OF_PULSE, {"pulse": pulse_id})
        return [MessageId(row.message_id) for row in rows]

    async def release_expired(self, now: datetime) -> Collection[AgentId]:
        """Return expired leases to unread; return the affected agents."""
        return await self._free(_HAS_EXPIRED, {"now": now})

    async def end_waits(self) -> Collection[AgentId]:
        """Return deliveries that are in flight to a caller to unread; return the affected agents."""
        return await self._free(_IS_WAIT, {})

    async def _free(
        self, conditions: Sequence[ColumnElement[bool]], values: Mapping[str, object]
    ) -> Collection[AgentId]:
        leased = select(deliveries.c.agent_id).where(IS_LEASED, *conditions).order_by(deliveries.c.leased_until)
        oldest = leased.limit(_AGENTS_PER_STATEMENT).subquery()  # by an index
        affected = select(oldest.c.agent_id).distinct()
        ids = await self._run(lambda connection: connection.execute(affected, values).scalars().all())
        if ids:
            await self._hold(*(agent_key(AgentId(agent_id)) for agent_id in ids))
            freeing = _RELEASE_LEASES.where(*conditions, deliveries.c.agent_id.in_(ids))
            await self._run(lambda connection: connection.execute(freeing, values))
        return {AgentId(agent_id) for agent_id in ids}

    async def delete_handled(self, before: datetime, *, limit: int) -> int:
        """Delete up to `limit` handled deliveries that ended before `before`, oldest first; return their number.

        Direct messages that no delivery, wake or answer refers to any more are deleted too.
        """
        await self._hold(RETENTION_KEY)
        values = {"before": before, "most": limit}
        owners = await self._run(
            lambda connection: {row.agent_id for row in _SELECT_OLD_HANDLED.all(connection, values)}
        )
        await self._hold(*(agent_key(AgentId(agent_id)) for agent_id in owners))

        def work(connection: Connection) -> int:
            retired = [row.message_id for row in _DELETE_OLD_HANDLED.all(connection, values)]
            ids: Collection[str] = set(retired)
            while ids:  # a deleted message may have been the last reply to another one
                forgotten = connection.execute(_DELETE_DIRECT_MESSAGES, {"ids": list(ids)}).all()
                remove_from_index(connection, [row.number for row in forgotten])
                ids = {row.reply_to for row in forgotten if row.reply_to is not None}
            return len(retired)

        return await self._run(work) if owners else 0

    async def _move(
        self,
        statement: Update,
        agent_id: AgentId,
        messages: Collection[MessageId],
        *,
        until: datetime | None = None,
        seen: datetime | None = None,
        ended: datetime | None = None,
        snoozed: bool = False,
    ) -> Sequence[MessageId]:
        """Run a move; return the messages whose deliveries it moved, in the given order."""
        await self._hold(agent_key(agent_id))
        if not messages:
            return []
        times = {"until": until, "seen": seen, "ended": ended}
        values = {"agent": agent_id, "ids": list(messages), **times, "snoozed": snoozed}
        moved = await self._run(lambda connection: set(connection.execute(statement, values).scalars()))
        return [message for message in messages if message in moved]
