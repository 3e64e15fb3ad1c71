"""The due, last and next hours of a bank's schedules."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from circadia.records.schedule import Recurrence
from circadia.records.sleep_pass import FARTHEST
from circadia.settings.sleeptime import SleepPolicySettings
from circadia.wake.scheduling.planning import SET_BACK
from circadia.wake.scheduling.recurrence import last_between, next_after

_HOUR: Final = timedelta(hours=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Schedule:
    rule: Recurrence
    full: bool
    within: timedelta | None

    def last_hour(self, since: datetime, now: datetime, seed: str) -> datetime | None:
        """Return the last hour after `since` for which a pass may still begin."""
        first = since if self.within is None else max(since, now - self.within)
        hour = last_between(self.rule, first, now, seed=seed)
        return None if hour is None or hour <= first else hour


class ScheduleHours:
    """The hours of one bank; its id is the seed of its rules."""

    def __init__(self, policy: SleepPolicySettings, zone: str, seed: str) -> None:
        self.zone = zone
        self._seed = seed
        self._schedules: Sequence[_Schedule] = [
            _Schedule(
                rule=schedule.recurrence(zone), full=schedule.full,
                within=None if schedule.within_hours is None else timedelta(hours=schedule.within_hours),
            )
            for schedule in policy.schedules
        ]  # fmt: skip

    def find_due_hour(self, since: datetime, now: datetime) -> tuple[datetime | None, bool]:
        """Return the last hour since then without a pass, and whether a full pass is due."""
        if since > now + SET_BACK:  # set by a clock that was days ahead: no hour would come until then
            since = now - _HOUR
        hours = [(schedule.last_hour(since, now, self._seed), schedule.full) for schedule in self._schedules]
        past = [(at, full) for at, full in hours if at is not None]
        return max((at for at, _ in past), default=None), any(full for _, full in past)

    def next_hour(self, now: datetime) -> datetime | None:
        ahead = (next_after(schedule.rule, now, seed=self._seed) for schedule in self._schedules)
        return min((at for at in ahead if at is not None), default=None)

    def end_of_window(self, now: datetime) -> datetime | None:
        """Return the end of the current hours for a pass, `now` if they are over; none if they have no end."""
        if any(schedule.within is None for schedule in self._schedules):
            return None
        ends = [
            at + schedule.within
            for schedule in self._schedules
            if schedule.within is not None
            and (at := schedule.last_hour(now - schedule.within, now, self._seed)) is not None
        ]
        return max(ends, default=now)

    def find_missed_hour(self, oldest: datetime, now: datetime) -> datetime | None:
        """Return an hour that has come and gone since the oldest waiting turn."""
        missed = (
            last_between(schedule.rule, oldest, late, seed=self._seed)
            for schedule in self._schedules
            if (late := now - (schedule.within or FARTHEST)) > oldest
        )
        return min((at for at in missed if at is not None), default=None)
