"""Counts over the whole fleet, in one statement and one for the wakes of the day."""

from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, Table, bindparam, distinct, exists, func, select

from circadia.ids import MemberId
from circadia.records.message import DeliveryState
from circadia.records.overview import Overview
from circadia.records.pulse import PulseStatus
from circadia.records.sleep_pass import PassStatus
from circadia.records.wake import Decision
from circadia.stores.sql.answer_tables import answer_days
from circadia.stores.sql.benefits import number_of
from circadia.stores.sql.members import members
from circadia.stores.sql.noun import Noun
from circadia.stores.sql.row_mapping import build_reader
from circadia.stores.sql.schema import agents, delivery_counts, pulses, wakes
from circadia.stores.sql.sleep_tables import benefits, passes
from circadia.stores.sql.statement import Statement

_PULSING: Final = (PulseStatus.STARTING.value, PulseStatus.RUNNING.value)
_OPEN_PASSES: Final = (PassStatus.PENDING.value, PassStatus.RUNNING.value)


def _sum_today(table: Table, column: str) -> ColumnElement[Any]:
    total = select(func.coalesce(func.sum(table.c[column]), 0)).where(table.c.day >= bindparam("day_number"))
    return total.scalar_subquery()


def _count(statement: Select[Any]) -> ColumnElement[Any]:
    return statement.scalar_subquery()


_AGENTS = select(func.count()).select_from(agents).where(agents.c.deleted_at.is_(None), agents.c.enabled)
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
        _count(
            select(func.coalesce(func.sum(delivery_counts.c.number), 0)).where(
                delivery_counts.c.state == DeliveryState.DEAD.value,
                exists().where(agents.c.id == delivery_counts.c.agent_id, agents.c.deleted_at.is_(None)),
            )
        ).label("dead_letters"),
        _sum_today(answer_days, "served").label("served_today"),
        _sum_today(answer_days, "hints").label("hints_today"),
        _sum_today(answer_days, "misses").label("misses_today"),
        _sum_today(benefits, "saved_tokens").label("saved_tokens_today"),
        _sum_today(benefits, "saved_nanousd").label("saved_nanousd_today"),
        _sum_today(benefits, "saved_seconds").label("saved_seconds_today"),
    )
)
_WAKES = Statement(
    select(wakes.c.decision, func.count()).where(wakes.c.decided_at >= bindparam("day")).group_by(wakes.c.decision)
)


class Overviews(Noun):
    async def count(self, now: datetime, *, own: MemberId | None) -> Overview:
        """Count what there is now and was in this UTC day; calls held at the server `own` are left out."""
        day = now.replace(hour=0, minute=0, second=0, microsecond=0)
        values = {"now": now, "own": own or "", "day_number": number_of(now.date())}
        (row,) = await self._all(_COUNTS, values)
        decided = await self._all(_WAKES, {"day": day})
        return _read_overview(row, wakes_today={Decision(decision): count for decision, count in decided})
