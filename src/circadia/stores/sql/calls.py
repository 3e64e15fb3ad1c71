"""The usage ledger, and the agent that received each provider-side id."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any, Final, NamedTuple, cast

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    bindparam,
    delete,
    func,
    literal,
    literal_column,
    or_,
    select,
    text,
    tuple_,
    union_all,
)

from circadia.errors import InvalidRequest
from circadia.ids import AgentId, CallId, PulseId
from circadia.records.agent import Agent
from circadia.records.call import AgentSpend, Call, CallFilter, CallPage, CallStatus, CallText, UsageGroup, UsagePage
from circadia.stores.locks import agent_key
from circadia.stores.sql.noun import Noun, where_given
from circadia.stores.sql.row_mapping import build_reader, build_writer
from circadia.stores.sql.schema import Instant, call_texts, calls, provider_ids, pulses
from circadia.stores.sql.statement import Statement
from circadia.stores.sql.upsert import Upsert
from circadia.stores.sql.usage import IS_ENDED, SUMS, UsageRange, UsageReader, build_group
from circadia.stores.sql.usage_days import add_calls, count_days, fetch_ended, usage_days

_FIELDS: Final = tuple(field.name for field in fields(Call))
_write_call = build_writer(_FIELDS)
_read_call = build_reader(Call)
_SAVE = Statement(Upsert(calls, keys=("id",), new=[name for name in _FIELDS if name != "id"]), _FIELDS)
_REMOVE = Statement(delete(calls).where(calls.c.id == bindparam("key")))

_OPEN: Final = select(
    literal(1).label("calls"),
    calls.c.reserved_tokens.label("charged_tokens"),
    calls.c.reserved_nanousd.label("charged_nanousd"),
).where(
    text("calls.status = 'reserved'"),  # as the index says it
    calls.c.agent_id == bindparam("agent_id"),
    calls.c.at >= bindparam("since"),
)
_ENDED: Final = select(usage_days.c.calls, usage_days.c.charged_tokens, usage_days.c.charged_nanousd).where(
    text("usage_days.scope = 'agent'"),
    usage_days.c.agent == bindparam("agent"),
    usage_days.c.session == bindparam("session"),
    usage_days.c.day == bindparam("day"),
)
_CHARGED: Final = union_all(_ENDED, _OPEN).subquery("charged")
_SUM_DAY: Final = Statement(select(*(func.coalesce(func.sum(column), 0) for column in _CHARGED.c)))
_COUNT: Final = Statement(
    select(func.count()).where(calls.c.agent_id == bindparam("agent_id"), calls.c.at >= bindparam("since"))
)

_SELECT = Statement(select(calls).where(calls.c.id == bindparam("key")), read=_read_call)
_SELECT_LATEST = Statement(
    select(calls)
    .where(calls.c.agent_id == bindparam("agent"))
    .order_by(calls.c.at.desc(), calls.c.id.desc())
    .limit(bindparam("most")),
    read=_read_call,
)

_TEXTS: Final = tuple(field.name for field in fields(CallText))
_write_text = build_writer(_TEXTS)
_KEEP_TEXT: Final = Statement(Upsert(call_texts), _TEXTS)
_SELECT_TEXT: Final = Statement(
    select(call_texts).where(call_texts.c.id == bindparam("key")), read=build_reader(CallText)
)
SCANNED: Final = 5_000
"""Calls that a page looks at: a filter that few calls meet may need several pages, and none takes long."""

_SUM_BY_PULSE: Final = Statement(
    select(pulses.c.id, *SUMS)
    .select_from(pulses)
    .join(
        calls,
        and_(
            calls.c.agent_id == pulses.c.agent_id,
            calls.c.at >= pulses.c.created_at,
            or_(pulses.c.ended_at.is_(None), calls.c.at <= pulses.c.ended_at),
        ),
    )
    .where(pulses.c.root_id == bindparam("root"), IS_ENDED)
    .group_by(pulses.c.id)
)


_NEWEST: Final = (calls.c.at.desc(), calls.c.id.desc())
_NEWEST_OF_FEW: Final = func.coalesce(calls.c.at, calls.c.at).desc(), calls.c.id.desc()
"""Not by the index of times: SQLite would read all calls of it to find the few that are under way."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_STEP: Final = timedelta(microseconds=1)


class Place(NamedTuple):
    """The place of a call among all others."""

    at: datetime
    id: str


def _split_filter(of: CallFilter) -> tuple[Sequence[ColumnElement[bool]], Mapping[str, object]]:
    """Return the conditions of the index to read, and the others by the names of their columns."""
    names = ("conversation", "end_user", "agent", "session", "model", "tier", "status", "upstream")
    others: dict[str, object] = {name: value for name in names if (value := getattr(of, name)) is not None}
    for name in names[:3]:
        if name in others:
            return [calls.c[name] == others.pop(name)], others
    # Partial indexes need their condition in the text of the statement.
    if of.status is CallStatus.FAILED:
        return [calls.c.status == literal_column("'failed'")], others
    if of.status is CallStatus.RESERVED:
        return [calls.c.status == literal_column("'reserved'")], others
    if of.tier is not None and of.tier != "hot":
        return [calls.c.tier != literal_column("'hot'"), calls.c.tier == others.pop("tier")], others
    return [], others


def _write_cursor(last: Call | Place) -> str:
    return f"{(last.at - _EPOCH) // _STEP}_{last.id}"


_MAX_DIGITS: Final = 17


def _read_cursor(after: str) -> tuple[Any, Any]:
    number, _, call_id = after.partition("_")
    if not (number.isdecimal() and number.isascii() and len(number) <= _MAX_DIGITS and call_id):
        raise InvalidRequest("`after` must be the `next` of the page before")
    return literal(_EPOCH + int(number) * _STEP, Instant), literal(call_id)


class Calls(Noun):
    """The usage ledger."""

    async def add(self, calls: Sequence[Call]) -> None:
        """Store calls, or overwrite those of the same id, to settle reservations."""
        lines = sorted({call.id: call for call in calls}.values(), key=attrgetter("id"))  # one order in all processes

        def work(connection: Connection) -> None:
            before = fetch_ended(connection, lines)
            _SAVE.run_many(connection, [_write_call(line) for line in lines])
            add_calls(connection, lines, instead=before)

        if lines:
            await self._run(work)

    async def get(self, call_id: CallId) -> Call | None:
        return await self._first(_SELECT, {"key": call_id})

    async def remove(self, call_id: CallId) -> None:
        """Remove an unused reservation."""
        await self._execute(_REMOVE, {"key": call_id})

    async def sum_day(self, agent: Agent, at: datetime) -> AgentSpend:
        """Return what counts for the agent's budgets on the UTC day of an instant, open reservations included.

        A call with unknown tokens or price counts as its reservation. What an earlier agent of the same name has used
        on that day counts as well. It reads the sums of the day, and the open calls: as many as are in flight.
        """
        await self._hold(agent_key(agent.id))
        values = {
            "agent": agent.name, "session": agent.session, "day": count_days(at), "agent_id": agent.id,
            "since": at.replace(hour=0, minute=0, second=0, microsecond=0),
        }  # fmt: skip
        [row] = await self._all(_SUM_DAY, values)
        return AgentSpend(calls=int(row[0]), tokens=int(row[1]), nanousd=int(row[2]))

    async def count_since(self, agent_id: AgentId, since: datetime) -> int:
        """Return the number of the agent's calls since then, open reservations included."""
        await self._hold(agent_key(agent_id))
        return int(await self._scalar(_COUNT, {"agent_id": agent_id, "since": since}))

    async def find_latest(self, agent_id: AgentId, limit: int) -> Sequence[Call]:
        """Return the agent's last calls, newest first."""
        return await self._all(_SELECT_LATEST, {"agent": agent_id, "most": limit})

    async def find_page(
        self, of: CallFilter, *, limit: int, after: str | None = None, by_cost: bool = False
    ) -> CallPage:
        """Return the newest calls of the filter after the last cursor.

        One filter goes by its index, and up to `SCANNED` calls of that are looked at for the others. With `by_cost`
        they are the dearest of those that are looked at, the dearest first; calls without a price are left out.

        Raises:
            InvalidRequest: `after` is no cursor of such a page.
        """
        driver, others = _split_filter(of)
        rows = where_given(select(calls).where(*driver), time=calls.c.at, since=of.since, until=of.until)
        if after is not None:
            at, last_id = _read_cursor(after)
            rows = rows.where(calls.c.at <= at, tuple_(calls.c.at, calls.c.id) < tuple_(at, last_id))
        rows = rows.order_by(*(_NEWEST_OF_FEW if of.status is CallStatus.RESERVED else _NEWEST)).limit(
            SCANNED if others or by_cost else limit + 1
        )
        looked_at = rows.subquery("looked_at")
        wanted = [looked_at.c[name] == value for name, value in others.items()]
        keys = ("at", "id")
        if by_cost:
            keys = ("cost_nanousd", *keys)
            wanted.append(looked_at.c.cost_nanousd.is_not(None))
        page = select(looked_at).where(*wanted).order_by(*(looked_at.c[name].desc() for name in keys))
        found = await self._select(page.limit(limit + 1), _read_call)
        if len(found) > limit and not by_cost:
            return CallPage(calls=found[:limit], next=_write_cursor(found[limit - 1]))
        found = found[:limit]
        if not (others or by_cost):
            return CallPage(calls=found, next=None)
        ends = cast("Select[Any]", rows.with_only_columns(calls.c.at, calls.c.id).limit(1).offset(SCANNED - 1))
        last = await self._select(ends, lambda row: Place(row.at, row.id))
        return CallPage(calls=found, next=_write_cursor(last[0]) if last else None)

    async def keep_texts(self, texts: Sequence[CallText]) -> None:
        """Keep the texts of calls; the first ones of a call stay."""
        if texts:
            rows = [_write_text(text) for text in sorted(texts, key=attrgetter("id"))]
            await self._run(lambda connection: _KEEP_TEXT.run_many(connection, rows))

    async def get_text(self, call_id: CallId) -> CallText | None:
        return await self._first(_SELECT_TEXT, {"key": call_id})

    async def sum_by_group(
        self,
        *by: str,
        since: datetime | None = None,
        until: datetime | None = None,
        session: str | None = None,
        agent: str | None = None,
    ) -> Sequence[UsageGroup]:
        """Return sums by groupings, ordered by their keys.

        There are `agent`, `model`, `tier`, `session`, `upstream`, `end_user`, `conversation` and `day` (UTC). A call
        without one has the key ``.

        Raises:
            InvalidRequest: a grouping does not exist.
        """
        of = UsageRange(since=since, until=until, session=session, agent=agent)
        return await self._run(lambda connection: UsageReader(connection, by, of).fetch_groups())

    async def find_usage_page(
        self,
        *by: str,
        since: datetime | None = None,
        until: datetime | None = None,
        session: str | None = None,
        agent: str | None = None,
        limit: int,
        after: str | None = None,
    ) -> UsagePage:
        """Return about `limit` of these sums after the last cursor, and the total.

        With `agent`, `end_user` or `conversation`, the page has the groups of the next keys of that. With two of them,
        calls that lack one of them are in the total only.

        Raises:
            InvalidRequest: a grouping does not exist, or `after` is no cursor of such a report.
        """
        of = UsageRange(since=since, until=until, session=session, agent=agent)
        return await self._run(lambda connection: UsageReader(connection, by, of).fetch_page(limit, after))

    async def sum_by_pulse(self, root_id: str) -> Mapping[PulseId, UsageGroup]:
        """Return the sums over the ended calls that each pulse of a chain made; a pulse without calls is left out.

        Calls of an agent from a pulse's creation to its end are the pulse's. Old calls that are summed up by the day
        belong to none.
        """
        rows = await self._all(_SUM_BY_PULSE, {"root": root_id})
        return {PulseId(row.id): build_group((row.id,), row[1:]) for row in rows}


_ADD_OWNER = Statement(Upsert(provider_ids), [column.name for column in provider_ids.c])
_SELECT_OWNER = Statement(
    select(provider_ids.c.agent_id).where(
        provider_ids.c.upstream == bindparam("upstream"), provider_ids.c.provider_id == bindparam("provider_id")
    )
)


class ProviderIds(Noun):
    """The agent that received each provider-side id (GATE-60)."""

    async def add(self, upstream: str, provider_id: str, agent_id: AgentId, at: datetime) -> None:
        """Record an owner, unless the id has one."""
        await self._write(_ADD_OWNER, (upstream, provider_id, agent_id, at))

    async def owner(self, upstream: str, provider_id: str) -> AgentId | None:
        return await self._scalar(_SELECT_OWNER, {"upstream": upstream, "provider_id": provider_id})
