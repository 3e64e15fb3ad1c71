"""The usage ledger."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from operator import attrgetter, itemgetter
from typing import Any, Final

from sqlalchemy import ColumnElement, Row, and_, bindparam, delete, func, literal_column, or_, select

from circadia.errors import InvalidRequest
from circadia.ids import AgentId, CallId, PulseId
from circadia.records.call import AgentSpend, Call, CallStatus, UsageGroup
from circadia.records.session import build_reference
from circadia.stores.locks import agent_key
from circadia.stores.sql.link import Runner
from circadia.stores.sql.schema import calls, pulses
from circadia.stores.sql.statement import Statement
from circadia.stores.sql.upsert import Upsert

_FIELDS: Final = tuple(field.name for field in fields(Call))
_ROW = attrgetter(*_FIELDS)
_PUT = Statement(Upsert(calls, keys=("id",), new=[name for name in _FIELDS if name != "id"]), _FIELDS)
_REMOVE = Statement(delete(calls).where(calls.c.id == bindparam("key")))

_KNOWN = func.coalesce(calls.c.input_tokens, calls.c.output_tokens).is_not(None)
_TOKENS = func.coalesce(calls.c.input_tokens, 0) + func.coalesce(calls.c.output_tokens, 0)
_SPENT = select(
    func.count(),
    func.coalesce(func.sum(_TOKENS).filter(_KNOWN), 0)
    + func.coalesce(func.sum(calls.c.reserved_tokens).filter(~_KNOWN), 0),
    func.coalesce(func.sum(func.coalesce(calls.c.cost_nanousd, calls.c.reserved_nanousd)), 0),
).where(calls.c.agent_id == bindparam("agent_id"), calls.c.at >= bindparam("since"))

_LATEST = Statement(
    select(calls)
    .where(calls.c.agent_id == bindparam("agent"), calls.c.merged.is_(None))
    .order_by(calls.c.at.desc(), calls.c.id.desc())
    .limit(bindparam("most"))
)

_DAY: Final[ColumnElement[int]] = literal_column("calls.at / 86400000000")  # whole days since 1970
SLEEP_TIER: Final = "(sleep tier)"
"""Agent of calls without an agent, followed by the name of the bank they were made for."""
_KEYS: Final[dict[str, Sequence[ColumnElement[Any]]]] = {
    "agent": (calls.c.session, calls.c.agent),
    "model": (calls.c.model,),
    "tier": (calls.c.tier,),
    "session": (calls.c.session,),
    "upstream": (calls.c.upstream,),
    "end_user": (calls.c.end_user,),
    "conversation": (calls.c.conversation,),
    "day": (_DAY,),
}
_NUMBER: Final = func.sum(func.coalesce(calls.c.merged, 1))
_SUMS = (
    _NUMBER.label("calls"),
    _NUMBER.filter(~_KNOWN).label("unknown"),
    _NUMBER.filter(calls.c.status == CallStatus.FAILED.value).label("failed"),
    func.sum(calls.c.input_tokens).label("input_tokens"),
    func.sum(calls.c.output_tokens).label("output_tokens"),
    func.sum(calls.c.cached_tokens).label("cached_tokens"),
    func.sum(calls.c.reasoning_tokens).label("reasoning_tokens"),
    func.sum(calls.c.cost_nanousd).label("cost_nanousd"),
    _NUMBER.filter(calls.c.cost_nanousd.is_(None)).label("unpriced"),
    func.sum(calls.c.held_seconds).label("held_seconds"),
)
_ENDED: Final = calls.c.status != CallStatus.RESERVED.value
_OF_PULSES: Final = Statement(
    select(pulses.c.id, *_SUMS)
    .select_from(pulses)
    .join(
        calls,
        and_(
            calls.c.agent_id == pulses.c.agent_id,
            calls.c.at >= pulses.c.created_at,
            or_(pulses.c.ended_at.is_(None), calls.c.at <= pulses.c.ended_at),
            calls.c.merged.is_(None),
        ),
    )
    .where(pulses.c.root_id == bindparam("root"), _ENDED)
    .group_by(pulses.c.id)
)


class SqlCalls:
    def __init__(self, runner: Runner) -> None:
        self._run = runner.run
        self._hold = runner.hold

    async def add(self, calls: Sequence[Call]) -> None:
        rows = sorted((_ROW(call) for call in calls), key=itemgetter(0))  # by id: one order in all processes
        if rows:
            await self._run(lambda connection: _PUT.run_many(connection, rows))

    async def remove(self, call_id: CallId) -> None:
        await self._run(lambda connection: _REMOVE.execute(connection, {"key": call_id}))

    async def sum_usage(self, agent_id: AgentId, since: datetime) -> AgentSpend:
        """Return the agent's usage since then, reservations included.

        A call with unknown tokens or price counts as its reservation.
        """
        await self._hold(agent_key(agent_id))
        values = {"agent_id": agent_id, "since": since}
        row = await self._run(lambda connection: connection.execute(_SPENT, values).one())
        return AgentSpend(calls=int(row[0]), tokens=int(row[1]), nanousd=int(row[2]))

    async def find_latest(self, agent_id: AgentId, limit: int) -> Sequence[Call]:
        values = {"agent": agent_id, "most": limit}
        rows = await self._run(lambda connection: _LATEST.all(connection, values))
        return [_call(row) for row in rows]

    async def sum_by_group(
        self,
        *by: str,
        since: datetime | None = None,
        until: datetime | None = None,
        session: str | None = None,
        agent: str | None = None,
    ) -> Sequence[UsageGroup]:
        """Return sums over ended calls by these groupings, ordered by their keys; a call without one has the key ``.

        Raises:
            InvalidRequest: a grouping does not exist.
        """
        for grouping in by:
            if grouping not in _KEYS:
                raise InvalidRequest(f"usage cannot be grouped by {grouping!r}; choose one of {', '.join(_KEYS)}")
        columns = tuple(dict.fromkeys(column for grouping in by for column in _KEYS[grouping]))
        statement = select(*columns, *_SUMS).where(_ENDED).group_by(*columns)
        if since is not None:
            statement = statement.where(calls.c.at >= since)
        if until is not None:
            statement = statement.where(calls.c.at < until)
        if session is not None:
            statement = statement.where(calls.c.session == session)
        if agent is not None:
            statement = statement.where(calls.c.agent == agent, calls.c.session != "")
        rows = await self._run(lambda connection: connection.execute(statement).all())
        groups = (_group(_keys(by, dict(zip(columns, row, strict=False))), row) for row in rows)
        return sorted(groups, key=lambda group: group.keys)

    async def sum_by_pulse(self, root_id: str) -> Mapping[PulseId, UsageGroup]:
        rows = await self._run(lambda connection: _OF_PULSES.all(connection, {"root": root_id}))
        return {PulseId(row.id): _group((row.id,), row) for row in rows}


def _call(row: Row[Any]) -> Call:
    values: dict[str, Any] = dict(zip(_FIELDS, _ROW(row), strict=True))
    values["status"] = CallStatus(row.status)
    return Call(**values)


def _keys(by: Sequence[str], values: Mapping[ColumnElement[Any], Any]) -> tuple[str, ...]:
    return tuple(_key(grouping, *(values[column] for column in _KEYS[grouping])) for grouping in by)


def _group(keys: tuple[str, ...], row: Row[Any]) -> UsageGroup:
    return UsageGroup(
        keys=keys,
        calls=int(row.calls),
        unknown=int(row.unknown or 0),
        failed=int(row.failed or 0),
        input_tokens=int(row.input_tokens or 0),
        output_tokens=int(row.output_tokens or 0),
        cached_tokens=int(row.cached_tokens or 0),
        reasoning_tokens=int(row.reasoning_tokens or 0),
        cost_nanousd=int(row.cost_nanousd or 0),
        unpriced=int(row.unpriced or 0),
        held_seconds=float(row.held_seconds or 0.0),
    )


def _key(grouping: str, value: Any, name: str | None = None) -> str:
    """Return the key for the values of a grouping's columns; an agent has its session and its `name`."""
    if grouping == "agent" and not value:
        return f"{SLEEP_TIER} {name}".rstrip()
    if grouping == "agent":
        return build_reference(value, str(name))
    if grouping == "day":
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=int(value))).date().isoformat()
    return value or ""
