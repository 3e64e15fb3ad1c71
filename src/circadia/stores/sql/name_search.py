"""Finds things of all kinds by the beginning of a name or an id, or by a part of a name (UI-20).

Each look reads a bounded number of rows of one index, so a search costs the same whatever is stored.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, bindparam, func, literal_column, null, select

from circadia.records.search_match import SearchKind, SearchMatch
from circadia.stores.sql.memory_tables import banks
from circadia.stores.sql.noun import Noun
from circadia.stores.sql.schema import agents, calls, messages, sessions, threads, wakes
from circadia.stores.sql.sleep_tables import passes

_NEAR: Final = 100
"""Rows looked at that follow the text in the order of the index: those that begin with it come first."""
_PARTS: Final = 2_000
"""Names looked at, in their order, for those that have the text in them."""
_ABOUT: Final = 120
"""Characters of a message."""


class _Source(NamedTuple):
    """Where matches of a kind come from."""

    kind: SearchKind
    rows: Select[*tuple[Any, ...]]
    """Columns: id, name, session and more words about it."""
    id: ColumnElement[str]
    name: ColumnElement[str] | None


_OF_SESSION: Final = select(sessions.c.name)
_SESSION_OF_AGENT: Final = _OF_SESSION.where(sessions.c.id == agents.c.session_id).scalar_subquery()
_SESSION_OF_THREAD: Final = _OF_SESSION.where(sessions.c.id == threads.c.session_id).scalar_subquery()
_SESSION_OF_MESSAGE: Final = _OF_SESSION.where(sessions.c.id == messages.c.session_id).scalar_subquery()


def _rows(
    key: Any, name: Any, session: Any, about: Any, place: Any, *only: ColumnElement[bool]
) -> Select[*tuple[Any, ...]]:
    columns = {"id": key, "name": name, "session": session, "about": about, "place": place}
    labelled: list[Any] = [column.label(label) for label, column in columns.items()]
    return select(*labelled).where(*only)


_SOURCES: Final = (
    _Source(
        SearchKind.AGENT,
        _rows(
            agents.c.id, agents.c.name, _SESSION_OF_AGENT, agents.c.description, null(), agents.c.deleted_at.is_(None),
        ),
        agents.c.id, agents.c.name,
    ),
    _Source(
        SearchKind.SESSION,
        _rows(sessions.c.id, sessions.c.name, sessions.c.name, sessions.c.status, null()),
        sessions.c.id, sessions.c.name,
    ),
    _Source(
        SearchKind.THREAD,
        _rows(
            threads.c.id, threads.c.name, _SESSION_OF_THREAD, threads.c.status, null(),
            threads.c.status != literal_column("'direct'"),
        ),
        threads.c.id, threads.c.name,
    ),
    _Source(
        SearchKind.BANK,
        _rows(banks.c.id, banks.c.name, null(), banks.c.description, null()), banks.c.id, banks.c.name,
    ),
    _Source(
        SearchKind.MESSAGE,
        _rows(
            messages.c.id, messages.c.sender, _SESSION_OF_MESSAGE, func.substr(messages.c.content, 1, _ABOUT),
            func.coalesce(messages.c.root_id, messages.c.id),
        ),
        messages.c.id, None,
    ),
    _Source(
        SearchKind.WAKE,
        _rows(wakes.c.id, wakes.c.agent, null(), wakes.c.decision, wakes.c.root_id), wakes.c.id, None,
    ),
    _Source(
        SearchKind.PASS, _rows(passes.c.id, passes.c.id, null(), passes.c.status, null()), passes.c.id, None,
    ),
    _Source(
        SearchKind.CALL, _rows(calls.c.id, calls.c.agent, calls.c.session, calls.c.model, null()), calls.c.id, None,
    ),
)  # fmt: skip


def _build_near(source: _Source, column: ColumnElement[str]) -> Select[Any]:
    """Build the query for the rows whose column begins with the text."""
    following = source.rows.add_columns(column.label("sought")).where(column >= bindparam("text"))
    near = following.order_by(column).limit(_NEAR).subquery("near")
    begins = func.substr(near.c.sought, 1, bindparam("length")) == bindparam("text")
    return select(near).where(begins).limit(bindparam("most"))


def _build_parts(source: _Source, name: ColumnElement[str]) -> Select[Any]:
    """Build the query for the rows whose name has the text in it, among the first of them."""
    some = source.rows.add_columns(name.label("sought")).order_by(name).limit(_PARTS).subquery("some_rows")
    has_part = func.lower(some.c.sought).like(bindparam("pattern"), escape="\\")
    return select(some).where(has_part).order_by(some.c.sought).limit(bindparam("most"))


_BY_ID: Final = [(source.kind, _build_near(source, source.id)) for source in _SOURCES]
_BY_NAME: Final = [
    (source.kind, build(source, source.name))
    for build in (_build_near, _build_parts)
    for source in _SOURCES
    if source.name is not None
]


class NameSearch(Noun):
    """Names and ids of all kinds of things."""

    async def find(self, sought: str, *, limit: int) -> Sequence[SearchMatch]:
        """Return up to `limit` matches of each kind, those whose name begins with the text first."""
        values = {"text": sought, "length": len(sought), "most": limit, "pattern": _build_pattern(sought)}

        def work(connection: Connection) -> Sequence[SearchMatch]:
            found: dict[SearchKind, dict[str, SearchMatch]] = {kind: {} for kind in SearchKind}
            statements = [*_BY_NAME, *(_BY_ID if "_" in sought else ())]
            for kind, statement in statements:
                for row in connection.execute(statement, values).all():
                    match = SearchMatch(kind=kind, **{name: getattr(row, name) for name in _FIELDS})
                    found[kind].setdefault(row.id, match)
            return [match for matches in found.values() for match in list(matches.values())[:limit]]

        return await self._run(work, short=False)


_FIELDS: Final = ("id", "name", "session", "about", "place")


def _build_pattern(sought: str) -> str:
    for sign in ("\\", "%", "_"):
        sought = sought.replace(sign, f"\\{sign}")
    return f"%{sought.lower()}%"
