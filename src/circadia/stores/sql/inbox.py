"""Inbox pages and search: each reads little more than a page, whatever the size of the inbox."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

from sqlalchemy import Connection, FromClause, Select, bindparam, literal_column, select, union_all

from circadia.ids import AgentId
from circadia.records.message import DeliveryState, Priority
from circadia.stores.sql.message_index import INDEXES, MessageTextIndex, SearchWords, fetch_first_unindexed
from circadia.stores.sql.schema import deliveries, messages, threads
from circadia.stores.sql.statement import Statement

_FIRST_LOOK: Final = 50
"""Messages that a search reads directly before it uses the index; frequent words are found among these."""
_CHUNK: Final = 500
_NO_END: Final = 2**63 - 1
_STEP: Final = 2**56
"""More than any number: the weight of a priority step in the page order."""
_DELIVERY: Final = ("agent_id", "state", "mentioned", "missed", "leased_until", "pulse_id", "seen_at", "ended_at")


def select_deliveries(found: FromClause) -> Select[Any]:
    """Return the select of whole deliveries for rows of the delivery table, or a subquery of them."""
    return (
        select(messages, *(found.c[name] for name in _DELIVERY), threads.c.name.label("thread"))
        .select_from(found)
        .join(messages, messages.c.id == found.c.message_id)
        .join(threads, threads.c.id == messages.c.thread_id)
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class InboxPosition:
    """The message before a page."""

    rank: int
    number: int


BEGIN: Final = InboxPosition(rank=len(Priority), number=0)
"""Before the first message in either order."""


@dataclass(frozen=True, kw_only=True, slots=True)
class InboxPageQuery:
    """Query of an inbox page."""

    agent_id: AgentId
    states: Sequence[DeliveryState]
    """Without duplicates, at least one."""
    urgent_first: bool
    """Order by priority, then age; else by age only."""
    after: InboxPosition
    limit: int

    def order(self, row: Any) -> tuple[int, int]:
        """Return the sort key of a row."""
        return (-row.priority if self.urgent_first else 0, row.number)

    def is_after(self, row: Any) -> bool:
        """Return whether the row belongs after the start position."""
        if self.urgent_first:
            return (-row.priority, row.number) > (-self.after.rank, self.after.number)
        return row.number > self.after.number


def fetch_page(connection: Connection, page: InboxPageQuery) -> Sequence[Any]:
    """Return a page. Each state is a range of an index, so the first rows of each state suffice."""
    statement = _URGENT_FIRST if page.urgent_first else _OLDEST_FIRST
    values = {"agent_id": page.agent_id, "most": page.limit, **_start_numbers(page)}
    rows = [statement.all(connection, {**values, "state": state.value}) for state in page.states]
    return rows[0] if len(rows) == 1 else sorted(chain.from_iterable(rows), key=page.order)[: page.limit]


def search_page(connection: Connection, page: InboxPageQuery, text: str) -> Sequence[Any]:
    """Return a page of the messages with these words."""
    words = SearchWords.parse(text)
    if not words.words:
        return ()
    first = fetch_page(connection, replace(page, limit=max(_FIRST_LOOK, page.limit)))
    matches = [row for row in first if words.match(row.content)]
    if len(matches) >= page.limit or len(first) < max(_FIRST_LOOK, page.limit):
        return matches[: page.limit]
    first_new = fetch_first_unindexed(connection)
    query = words.build_query(page.agent_id, connection.dialect.name)
    after = page.after.number - (page.after.rank * _STEP if page.urgent_first else 0)
    states = [state.value for state in page.states]
    states += [states[0]] * (len(DeliveryState) - len(states))
    values = {f"state_{place}": state for place, state in enumerate(states)}
    values |= {"agent_id": page.agent_id, "query": query, "after_place": after, "most": page.limit}
    known = (_FOUND_URGENT_FIRST if page.urgent_first else _FOUND_OLDEST_FIRST).all(connection, values)
    matches = {row.number: row for row in known}
    if first_new is not None:
        fresh = _fetch_after(connection, page, first_new - 1)
        matches |= {row.number: row for row in fresh if page.is_after(row) and words.match(row.content)}
    return sorted(matches.values(), key=page.order)[: page.limit]


def find_place(connection: Connection, agent_id: AgentId, message_id: str) -> InboxPosition | None:
    """Return a message's position, if it is in the inbox."""
    row = _PLACE.first(connection, {"agent_id": agent_id, "message_id": message_id})
    return None if row is None else InboxPosition(rank=row.priority, number=row.number)


def _start_numbers(page: InboxPageQuery) -> dict[str, int]:
    """Return the number after which each priority starts."""
    if not page.urgent_first:
        return {"after": page.after.number}
    return {
        f"after_{rank}": page.after.number if rank == page.after.rank else (0 if rank < page.after.rank else _NO_END)
        for rank in range(len(Priority))
    }


def _fetch_after(connection: Connection, page: InboxPageQuery, number: int) -> Sequence[Any]:
    """Return all rows after a number in no order; they are too new for the index."""
    collected: list[Any] = []
    for state in page.states:
        after, more = number, True
        while more:
            values = {"agent_id": page.agent_id, "state": state.value, "after": after, "most": _CHUNK}
            rows = _OLDEST_FIRST.all(connection, values)
            collected += rows
            more = len(rows) == _CHUNK
            after = rows[-1].number if rows else after
    return collected


_OF_AGENT: Final = select(deliveries).where(deliveries.c.agent_id == bindparam("agent_id"))


def _select_in_state() -> Select[Any]:
    return _OF_AGENT.where(deliveries.c.state == bindparam("state"))


def _select_priority(rank: int) -> Select[Any]:
    """Select the first deliveries of a priority after a number."""
    one = _select_in_state().where(
        deliveries.c.priority == literal_column(str(rank)), deliveries.c.number > bindparam(f"after_{rank}")
    )
    return select(one.order_by(deliveries.c.number).limit(bindparam("most")).subquery())


def _select_urgent_first() -> Select[Any]:
    """Return the select of a page, urgent ones first: of each priority, a stretch of the index, a page at most."""
    some = union_all(*(_select_priority(rank) for rank in range(len(Priority)))).subquery()
    # Cut to the page before messages are joined: else four pages of them would be read.
    page = select(some).order_by(some.c.priority.desc(), some.c.number).limit(bindparam("most")).subquery()
    return select_deliveries(page).order_by(page.c.priority.desc(), page.c.number)


def _select_oldest_first() -> Select[Any]:
    one = _select_in_state().where(deliveries.c.number > bindparam("after"))
    page = one.order_by(deliveries.c.number).limit(bindparam("most")).subquery()
    return select_deliveries(page).order_by(page.c.number)


def _select_indexed(index: MessageTextIndex, *, urgent_first: bool) -> Select[Any]:
    """Select a page of the index's matches.

    It is ordered by a sum, not by columns: else SQLite might scan the whole inbox in the order of an index.
    """
    place = deliveries.c.number - deliveries.c.priority * literal_column(str(_STEP if urgent_first else 0))
    one = _OF_AGENT.where(
        deliveries.c.state.in_([bindparam(f"state_{place}") for place in range(len(DeliveryState))]),
        index.found(deliveries.c.number),
        place > bindparam("after_place"),
    )
    page = one.add_columns(place.label("place")).order_by("place").limit(bindparam("most")).subquery()
    return select_deliveries(page).order_by(page.c.place)


_URGENT_FIRST: Final = Statement(_select_urgent_first())
_OLDEST_FIRST: Final = Statement(_select_oldest_first())
_FOUND_BY_DIALECT: Final = {
    (name, urgent): _select_indexed(index, urgent_first=urgent)
    for name, index in INDEXES.items()
    for urgent in (True, False)
}
_FOUND_URGENT_FIRST: Final = Statement(lambda connection: _FOUND_BY_DIALECT[connection.dialect.name, True])
_FOUND_OLDEST_FIRST: Final = Statement(lambda connection: _FOUND_BY_DIALECT[connection.dialect.name, False])
_PLACE: Final = Statement(
    select(deliveries.c.priority, deliveries.c.number).where(
        deliveries.c.agent_id == bindparam("agent_id"), deliveries.c.message_id == bindparam("message_id")
    )
)
