"""Sums of the usage ledger by day, written with its lines.

Each ended call counts in a row for the whole fleet, one for its session, one for its agent, and one for its end user if
it has one. A line that is written again counts by the difference.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from operator import add
from typing import Any, Final

import orjson
from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Connection,
    Double,
    Index,
    Integer,
    Select,
    String,
    Table,
    bindparam,
    cast,
    func,
    select,
)

from circadia.records.call import Call, CallStatus
from circadia.stores.sql.schema import calls, metadata, only
from circadia.stores.sql.statement import Statement
from circadia.stores.sql.upsert import Upsert

_KEY: Final = String().with_variant(String(collation="C"), "postgresql")
"""A key in the order of its code points."""
usage_days = Table(
    "usage_days",
    metadata,
    Column("scope", _KEY, primary_key=True),
    Column("end_user", _KEY, primary_key=True),
    Column("session", _KEY, primary_key=True),
    Column("agent", _KEY, primary_key=True),
    Column("day", Integer, primary_key=True, autoincrement=False),  # whole days since 1970
    Column("tier", _KEY, primary_key=True),
    Column("upstream", _KEY, primary_key=True),
    Column("model", _KEY, primary_key=True),
    Column("has_user", Boolean, primary_key=True),
    Column("has_conversation", Boolean, primary_key=True),
    Column("calls", BigInteger, nullable=False),
    Column("unknown", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
    Column("unpriced", BigInteger, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("cached_tokens", BigInteger, nullable=False),
    Column("reasoning_tokens", BigInteger, nullable=False),
    Column("cost_nanousd", BigInteger, nullable=False),
    Column("held_seconds", Double, nullable=False),
    Column("charged_tokens", BigInteger, nullable=False, server_default="0"),
    Column("charged_nanousd", BigInteger, nullable=False, server_default="0"),
    sqlite_with_rowid=False,
)
Index("usage_days_agent", usage_days.c.agent, usage_days.c.session, usage_days.c.day, **only("scope = 'agent'"))
Index("usage_days_old", usage_days.c.day, **only("scope = 'end_user'"))
Index("usage_days_older", usage_days.c.day, **only("scope <> 'end_user'"))

SCOPES: Final[Mapping[str, Sequence[str]]] = {
    "fleet": (), "session": ("session",), "agent": ("session", "agent"), "end_user": ("end_user", "session", "agent"),
}  # fmt: skip
"""Columns that a row of each scope has; the others of these are empty."""
MEASURES: Final = (
    "calls", "unknown", "failed", "unpriced", "input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens",
    "cost_nanousd", "held_seconds",
)  # fmt: skip
_CHARGED: Final = ("charged_tokens", "charged_nanousd")
"""What a budget counts: the reservation of a call whose tokens or price are unknown."""
_COLUMNS: Final = [column.name for column in usage_days.c]
_KEYS: Final = [column.name for column in usage_days.primary_key]
_ADD: Final = Statement(Upsert(usage_days, keys=_KEYS, more=(*MEASURES, *_CHARGED)), _COLUMNS)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_Key = tuple[Any, ...]


def count_days(at: datetime) -> int:
    """Return the whole UTC days since 1970."""
    return (at - _EPOCH).days


def _select_ended(connection: Connection) -> Select[Any]:
    """Select ended calls by a JSON list of ids: any number of them in one trip."""
    text = bindparam("ids", type_=String)
    is_postgres = connection.dialect.name == "postgresql"
    ids = func.json_array_elements_text(cast(text, JSON)) if is_postgres else func.json_each(text)
    listed = ids.table_valued("value", name="listed")
    return select(calls).where(calls.c.id.in_(select(listed.c.value)), calls.c.status != CallStatus.RESERVED.value)


_ENDED: Final = Statement(_select_ended)


def fetch_ended(connection: Connection, lines: Iterable[Call]) -> Sequence[Any]:
    """Return the rows of these calls that are ended already."""
    ids = [line.id for line in lines if line.status is not CallStatus.RESERVED]
    return _ENDED.all(connection, {"ids": orjson.dumps(ids).decode()}) if ids else ()


def add_calls(connection: Connection, lines: Iterable[Call], *, instead: Iterable[Any]) -> None:
    """Count the ended ones of these calls, in place of the rows that they overwrite."""
    sums: dict[_Key, list[float]] = {}
    for line in lines:
        if line.status is not CallStatus.RESERVED:
            _count(sums, line, 1)
    for row in instead:
        _count(sums, row, -1)
    rows = [(*key, *total) for key, total in _spread(sums).items() if any(total)]
    if rows:
        _ADD.run_many(connection, sorted(rows))  # one order in all processes


def _count(sums: dict[_Key, list[float]], line: Any, sign: int) -> None:
    is_known = line.input_tokens is not None or line.output_tokens is not None
    amounts = (
        1, not is_known, line.status == CallStatus.FAILED.value, line.cost_nanousd is None, line.input_tokens or 0,
        line.output_tokens or 0, line.cached_tokens or 0, line.reasoning_tokens or 0, line.cost_nanousd or 0,
        line.held_seconds, (line.input_tokens or 0) + (line.output_tokens or 0) if is_known else line.reserved_tokens,
        line.reserved_nanousd if line.cost_nanousd is None else line.cost_nanousd,
    )  # fmt: skip
    end_user = line.end_user or ""
    key = (
        "end_user", end_user, line.session, line.agent, count_days(line.at), line.tier, line.upstream, line.model,
        end_user != "", line.conversation is not None,
    )  # fmt: skip
    _add(sums, key, amounts if sign == 1 else [-amount for amount in amounts])


def _spread(sums: Mapping[_Key, Sequence[float]]) -> Mapping[_Key, Sequence[float]]:
    """Return the sums of each scope."""
    of_scopes: dict[_Key, list[float]] = {}
    for key, total in sums.items():
        _, end_user, session, agent, *rest = key
        if end_user:
            _add(of_scopes, key, total)
        for names in (("agent", "", session, agent), ("session", "", session, ""), ("fleet", "", "", "")):
            _add(of_scopes, (*names, *rest), total)
    return of_scopes


def _add(sums: dict[_Key, list[float]], key: _Key, amounts: Sequence[float]) -> None:
    known = sums.get(key)
    sums[key] = list(amounts) if known is None else list(map(add, known, amounts))
