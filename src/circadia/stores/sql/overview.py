"""Looks over all nouns: counts over the whole fleet, and what is due.

What is due is read in one statement, of which each part is a step or two in a partial index. The counts take one
statement, and one for the wakes of the day.
"""

from collections.abc import Collection
from datetime import datetime
from typing import Any, Final

from sqlalchemy import (
    Boolean,
    ColumnElement,
    DateTime,
    Select,
    Table,
    bindparam,
    distinct,
    exists,
    func,
    literal_column,
    null,
    or_,
    select,
    text,
)

from circadia.ids import MemberId
from circadia.records.due_work import DueWork
from circadia.records.message import DeliveryState
from circadia.records.overview import Overview
from circadia.records.pulse import PulseStatus
from circadia.records.sleep_pass import PassStatus
from circadia.records.wake import Decision
from circadia.stores.sql.answer_tables import answer_days
from circadia.stores.sql.deliveries import IS_LEASED
from circadia.stores.sql.events import HAS_UNNUMBERED
from circadia.stores.sql.members import members
from circadia.stores.sql.memory_tables import episodes
from circadia.stores.sql.message_index import IS_NEW
from circadia.stores.sql.noun import Noun
from circadia.stores.sql.passes import CLAIMS as PASS_CLAIMS
from circadia.stores.sql.pulses import CLAIMS as PULSE_CLAIMS
from circadia.stores.sql.pulses import IS_OVERDUE
from circadia.stores.sql.row_mapping import build_reader
from circadia.stores.sql.schema import (
    Instant,
    agents,
    deliveries,
    delivery_counts,
    events,
    messages,
    number_of,
    pulses,
    routines,
    wakes,
)
from circadia.stores.sql.sleep_tables import benefits, due_checks, next_checks, passes
from circadia.stores.sql.spans import HAS_UNSUMMED
from circadia.stores.sql.statement import Statement, build_least

_PULSING: Final = (PulseStatus.STARTING.value, PulseStatus.RUNNING.value)
_OPEN_PASSES: Final = (PassStatus.PENDING.value, PassStatus.RUNNING.value)


def _sum_today(table: Table, column: str) -> ColumnElement[Any]:
    total = select(func.coalesce(func.sum(table.c[column]), 0)).where(table.c.day >= bindparam("day_number"))
    return total.scalar_subquery()


def _count(statement: Select[Any]) -> ColumnElement[Any]:
    return statement.scalar_subquery()


_AGENTS = select(func.count()).select_from(agents).where(agents.c.deleted_at.is_(None), agents.c.enabled)
_DEAD_LETTERS = _count(
    select(func.coalesce(func.sum(delivery_counts.c.number), 0)).where(
        delivery_counts.c.state == DeliveryState.DEAD.value,
        exists().where(agents.c.id == delivery_counts.c.agent_id, agents.c.deleted_at.is_(None)),
    )
)
_read_overview = build_reader(
    Overview,
    without=("wakes_today",),
    held=int,
    dead_letters=int,
    served_today=int,
    hints_today=int,
    misses_today=int,
    saved_tokens_today=int,
    saved_nanousd_today=int,
    saved_seconds_today=float,
)
_COUNTS = Statement(
    select(
        _count(_AGENTS.where(agents.c.asleep)).label("asleep"),
        _count(_AGENTS.where(~agents.c.asleep)).label("awake"),
        _count(
            select(func.count(distinct(pulses.c.agent_id))).where(
                pulses.c.ended_at.is_(None), pulses.c.status.in_(_PULSING)
            )
        ).label("pulsing"),
        _count(
            select(func.coalesce(func.sum(members.c.holds), 0)).where(
                members.c.lease_until > bindparam("now"), members.c.id != bindparam("own")
            )
        ).label("held"),
        _count(select(func.count()).select_from(passes).where(passes.c.status.in_(_OPEN_PASSES))).label("passes"),
        _DEAD_LETTERS.label("dead_letters"),
        _sum_today(answer_days, "served").label("served_today"),
        _sum_today(answer_days, "hints").label("hints_today"),
        _sum_today(answer_days, "misses").label("misses_today"),
        _sum_today(benefits, "saved_tokens").label("saved_tokens_today"),
        _sum_today(benefits, "saved_nanousd").label("saved_nanousd_today"),
        _sum_today(benefits, "saved_seconds").label("saved_seconds_today"),
    )
)
_SELECT_DEAD_LETTERS = Statement(select(_DEAD_LETTERS))
_WAKES = Statement(
    select(wakes.c.decision, func.count()).where(wakes.c.decided_at >= bindparam("day")).group_by(wakes.c.decision)
)


class Overviews(Noun):
    async def count(self, now: datetime, *, own: MemberId | None) -> Overview:
        """Count what there is now and was in this UTC day; calls held at the server `own` are left out."""
        day = now.replace(hour=0, minute=0, second=0, microsecond=0)
        (row,) = await self._all(_COUNTS, {"now": now, "own": own or "", "day_number": number_of(now.date())})
        decided = await self._all(_WAKES, {"day": day})
        return _read_overview(row, wakes_today={Decision(decision): count for decision, count in decided})

    async def count_dead_letters(self) -> int:
        """Count the dead letters of all agents."""
        return int(await self._scalar(_SELECT_DEAD_LETTERS))


def _is_time(column: ColumnElement[Any], *where: ColumnElement[bool]) -> ColumnElement[bool]:
    """Build the condition that a row's time has come."""
    return func.coalesce(build_least(column, *where) <= bindparam("now", type_=Instant), False, type_=Boolean)


_IS_DEFERRED = wakes.c.decision == literal_column("'deferred'")
_LAST_EVENT = func.coalesce(select(func.max(events.c.number)).where(events.c.number > 0).scalar_subquery(), 0)
# A crash of one of its processes restarts the others, too; only the statistics tell.
_SERVER_START = {
    "postgresql": func.greatest(
        func.pg_postmaster_start_time(), func.pg_stat_get_bgwriter_stat_reset_time(), type_=DateTime(timezone=True)
    ),
    "sqlite": null(),
}
_read_due_work = build_reader(DueWork, last_event=int)
_DUE = Statement(
    lambda connection: select(
        exists().where(PULSE_CLAIMS.build_startable(connection)).label("pulses"),
        exists().where(PASS_CLAIMS.is_startable).label("passes"),
        exists().where(PULSE_CLAIMS.is_owned).label("claimed_pulses"),
        exists().where(PASS_CLAIMS.is_owned).label("claimed_passes"),
        exists().where(IS_OVERDUE).label("overdue_pulses"),
        or_(
            _is_time(wakes.c.not_before, _IS_DEFERRED),
            _is_time(wakes.c.expires_at, _IS_DEFERRED),
            exists().where(_IS_DEFERRED, wakes.c.rule == bindparam("fleet_rule")),
        ).label("wakes"),
        select(func.min(routines.c.next_at)).where(text("routines.enabled")).scalar_subquery().label("routine_at"),
        _is_time(deliveries.c.leased_until, IS_LEASED).label("leases"),
        exists().where(IS_NEW).select_from(messages).label("messages"),
        or_(exists().select_from(due_checks), _is_time(next_checks.c.at)).label("checks"),
        _is_time(episodes.c.expires_at).label("expired"),
        HAS_UNSUMMED.label("spans"),
        HAS_UNNUMBERED.label("events"),
        _LAST_EVENT.label("last_event"),
        _SERVER_START[connection.dialect.name].label("server_start"),
    ),
    read=_read_due_work,
)


class DueWorks(Noun):
    async def find(self, now: datetime, *, fleet_rule: str, launchers: Collection[str] = ()) -> DueWork:
        """Return what is due, in one statement: of pulses, those of `launchers`.

        `fleet_rule` is the rule of wakes that wait for a place in the fleet.
        """
        values = {
            **PULSE_CLAIMS.build_values(now, launchers), **PASS_CLAIMS.build_values(now), "fleet_rule": fleet_rule,
        }  # fmt: skip
        (due,) = await self._all(_DUE, values, short=True, single="read")
        return due
