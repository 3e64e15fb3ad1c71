"""One statement that tells what is due; each part is a step or two in a partial index."""

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import DateTime, bindparam, exists, func, literal_column, null, or_, select, text

from circadia.records.due_work import DueWork
from circadia.stores.sql import passes, pulses
from circadia.stores.sql.deliveries import HAS_EXPIRED, IS_LEASED
from circadia.stores.sql.due_checks import IS_TIME
from circadia.stores.sql.message_index import IS_NEW
from circadia.stores.sql.noun import Noun
from circadia.stores.sql.row_mapping import build_reader
from circadia.stores.sql.schema import events, messages, routines, wakes
from circadia.stores.sql.sleep_tables import due_checks
from circadia.stores.sql.statement import Statement

_IS_DEFERRED = wakes.c.decision == literal_column("'deferred'")
_LAST_EVENT = func.coalesce(select(func.max(events.c.number)).where(events.c.number > 0).scalar_subquery(), 0)
_HAS_UNNUMBERED = exists().where(events.c.number < 0)
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
        exists().where(pulses.CLAIMS.build_startable(connection)).label("pulses"),
        exists().where(passes.CLAIMS.is_startable).label("passes"),
        exists().where(pulses.CLAIMS.is_owned).label("claimed_pulses"),
        exists().where(passes.CLAIMS.is_owned).label("claimed_passes"),
        exists().where(pulses.IS_OVERDUE).label("overdue_pulses"),
        or_(
            exists().where(_IS_DEFERRED, wakes.c.not_before <= bindparam("now")),
            exists().where(_IS_DEFERRED, wakes.c.expires_at <= bindparam("now")),
            exists().where(_IS_DEFERRED, wakes.c.rule == bindparam("fleet_rule")),
        ).label("wakes"),
        select(func.min(routines.c.next_at)).where(text("routines.enabled")).scalar_subquery().label("routine_at"),
        exists().where(IS_LEASED, *HAS_EXPIRED).label("leases"),
        exists().where(IS_NEW).select_from(messages).label("messages"),
        or_(exists().select_from(due_checks), exists().where(IS_TIME)).label("checks"),
        _HAS_UNNUMBERED.label("events"),
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
            **pulses.CLAIMS.build_values(now, launchers), **passes.CLAIMS.build_values(now), "fleet_rule": fleet_rule,
        }  # fmt: skip
        (due,) = await self._all(_DUE, values, short=True, single="read")
        return due
