"""When a routine is due and what happens then: the one plan for engine, API and dashboard.

Pure, without clock or database: it takes `now` and returns the updated routine.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from circadia.records.schedule import Blackout, BlackoutPolicies, BlackoutPolicy, Routine, to_utc
from circadia.wake.scheduling.blackouts import BlackoutPeriod, blackout_at
from circadia.wake.scheduling.recurrence import MICROSECOND, count_between, last_between, next_after

SET_BACK: Final = timedelta(days=1)
"""A run up to this far in the future is not repeated after the clock is set back; a clock further ahead was wrong."""


MAX_PLANS: Final = 1_000
"""Maximum number of plans in a search for the next runs."""
MAX_BLACKOUT_CHECKS: Final = 5_000
"""Maximum number of plans times blackouts in it; a check takes about 0.2 ms."""
SEARCHED: Final = timedelta(days=36_525)
"""Length of time in which it searches: 100 years."""


class RoutineAction(StrEnum):
    WAIT = "wait"
    RUN = "run"
    DEFERRED = "deferred"
    SKIPPED = "skipped"
    MISSED = "missed"


@dataclass(frozen=True, kw_only=True, slots=True)
class RoutinePlan:
    """The action to take now, and the updated routine.

    Save the routine in the transaction that acts on the verdict, by compare-and-set on `next_at`: two processes that
    plan the same occurrence then act once.
    """

    verdict: RoutineAction
    routine: Routine
    """After the action; `next_at` is when to plan it next."""
    occurrence: datetime | None = None
    """The last occurrence that was due and that the verdict concerns; with `wait`, the one that waits, if any."""
    late_seconds: float = 0.0
    """Delay of a run after it became due."""
    missed: int = 0
    """Missed occurrences that will not run: all that were due with `missed`, else the older ones.

    For cron rules the count stops at 1,000.
    """
    coalesced: int = 0
    """Older occurrences in the same blackout that this run covers."""
    blackout: BlackoutPeriod | None = None
    """The blackout that deferred or skipped it."""


def plan_from(routine: Routine, now: datetime) -> Routine:
    """Return the routine planned from `now` on, after it was created, changed, or switched on or off.

    A deferred occurrence is dropped, as it belonged to the earlier schedule. After a clock was set back by up to a day,
    past runs are not repeated.

    Raises:
        InvalidRequest: `now` has no zone.
    """
    now = to_utc("now", now)
    if not routine.spec.enabled:
        return replace(routine, next_at=None, deferred_from=None)
    ran = routine.last_at
    return _advance(routine, ran if ran is not None and now < ran <= now + SET_BACK else now)


def replan_if_set_back(routine: Routine, now: datetime) -> Routine:
    """Return the routine planned again if it was planned by a clock more than a day ahead, else unchanged.

    It would be silent until that day otherwise. A single instant that has run is over, whatever the clock said.
    """
    if routine.spec.recurrence.at:
        return routine
    again, planned = plan_from(routine, now), routine.deferred_from or routine.next_at
    ahead = planned is not None and again.next_at is not None and planned - again.next_at > SET_BACK
    return again if ahead else routine


def plan_routine(
    routine: Routine,
    blackouts: Sequence[Blackout],
    now: datetime,
    *,
    zone: str | None = None,
    policies: BlackoutPolicies | None = None,
) -> RoutinePlan:
    """Decide what happens to the routine at `now`.

    Of any number of past occurrences at most the last one runs, if it is late within the grace; the others are counted.
    No occurrence is decided twice: after a clock is set back, `next_at` lies in the future and the routine waits for
    it. Call it at `next_at`, and when blackouts or policies change: an occurrence deferred by a blackout runs at once
    if that blackout is gone.

    Args:
        routine: its current state; `next_at` may be past.
        blackouts: of its agent.
        now: the current instant.
        zone: zone of the blackouts; None means that of the recurrence.
        policies: the agent's policies, for routines without their own.

    Raises:
        InvalidRequest: `now` has no zone, or `zone` is unknown.
    """
    now = to_utc("now", now)
    if not routine.spec.enabled:
        return RoutinePlan(verdict=RoutineAction.WAIT, routine=plan_from(routine, now))
    if routine.next_at is None:
        return RoutinePlan(verdict=RoutineAction.WAIT, routine=routine)
    if routine.deferred_from is None and routine.next_at > now:
        return RoutinePlan(verdict=RoutineAction.WAIT, routine=routine)
    rules = _BlackoutRules(
        policy=routine.spec.effective_policy(policies or BlackoutPolicies()),
        blackouts=blackouts,
        zone=zone or routine.spec.recurrence.zone,
    )
    return _plan_due(routine, rules, now)


@dataclass(frozen=True, kw_only=True, slots=True)
class RoutineRun:
    """A run that is to come."""

    at: datetime
    """In UTC."""
    routine: str
    deferred_from: datetime | None
    """The occurrence that a blackout defers to `at`; of several, the last."""


def next_runs(
    routines: Sequence[Routine],
    blackouts: Sequence[Blackout],
    now: datetime,
    *,
    zone: str,
    policies: BlackoutPolicies,
    share: int = 1,
) -> Iterator[RoutineRun]:
    """Yield the runs from `now` on, in order, as `plan_routine` will decide them.

    The search ends after `SEARCHED`, and after `MAX_PLANS` plans or fewer with many blackouts, of which one of several
    searches takes its `share`. A plan is a run, a deferral, or a blackout that skips occurrences. No run before the
    last one is missing.
    """
    now = to_utc("now", now)
    horizon = now + SEARCHED
    queue = [
        (now if routine.deferred_from else max(now, routine.next_at), place, routine)
        for place, routine in enumerate(sorted(routines, key=lambda routine: routine.name))
        if routine.spec.enabled and routine.next_at is not None
    ]
    heapq.heapify(queue)
    for _ in range(max(1, min(MAX_PLANS, MAX_BLACKOUT_CHECKS // max(1, len(blackouts))) // share)):
        if not queue or queue[0][0] > horizon:
            return
        at, place, routine = queue[0]
        plan = plan_routine(routine, blackouts, at, zone=zone, policies=policies)
        if plan.verdict is RoutineAction.RUN:
            occurrence = plan.occurrence if routine.deferred_from and plan.occurrence != at else None
            yield RoutineRun(at=at, routine=routine.name, deferred_from=occurrence)
        after = plan.routine
        if plan.verdict is RoutineAction.SKIPPED and plan.blackout is not None:  # so is all else in that blackout
            end = plan.blackout.end
            if end is None or end > horizon:
                after = replace(after, next_at=None)
            else:
                after = _advance(after, max(at, end - MICROSECOND))
        if after.next_at is None:
            heapq.heappop(queue)
        else:
            heapq.heapreplace(queue, (after.next_at, place, after))


@dataclass(frozen=True, kw_only=True, slots=True)
class _BlackoutRules:
    """The blackouts as they affect one routine."""

    policy: BlackoutPolicy
    blackouts: Sequence[Blackout]
    zone: str

    def active_blackout(self, instant: datetime) -> BlackoutPeriod | None:
        """Return the blackout at the instant, or None if the policy ignores blackouts."""
        if self.policy is BlackoutPolicy.RUN:
            return None
        return blackout_at(self.blackouts, self.zone, instant)


def _plan_due(routine: Routine, rules: _BlackoutRules, now: datetime) -> RoutinePlan:
    """Decide on a routine that is due or deferred by a blackout."""
    assert routine.next_at is not None
    first = routine.deferred_from or routine.next_at
    occurrence = first
    upcoming = next_after(routine.spec.recurrence, first, seed=routine.id)
    if upcoming is not None and upcoming <= now:  # else it is on time, as nearly always: no search
        occurrence = last_between(routine.spec.recurrence, upcoming, now, seed=routine.id) or first
    inside = rules.active_blackout(occurrence)
    if inside is not None and (rules.policy is BlackoutPolicy.SKIP or inside.end is None):
        return _plan_skipped(routine, first, occurrence, now, inside)
    due = occurrence if inside is None or inside.end is None else inside.end
    if routine.deferred_from is not None:
        due = max(due, min(routine.next_at, now))
    if due > now:
        return _plan_deferred(routine, first, occurrence, inside, due)
    grace = routine.spec.misfire_grace_seconds
    if grace is not None and now - due > timedelta(seconds=grace):
        return _plan_missed(routine, first, occurrence, now)
    present = rules.active_blackout(now)
    if present is not None and (rules.policy is BlackoutPolicy.SKIP or present.end is None):
        return _plan_skipped(routine, first, occurrence, now, present)
    if present is not None and present.end is not None:
        return _plan_deferred(routine, first, occurrence, present, present.end)
    older = _count_older(routine, first, occurrence, inside)
    return RoutinePlan(
        verdict=RoutineAction.RUN,
        routine=_advance(replace(routine, last_at=occurrence, missed=routine.missed + older[0]), now),
        occurrence=occurrence,
        late_seconds=(now - due).total_seconds(),
        missed=older[0],
        coalesced=older[1],
    )


def _advance(routine: Routine, after: datetime) -> Routine:
    return replace(routine, next_at=next_after(routine.spec.recurrence, after, seed=routine.id), deferred_from=None)


def _count_older(
    routine: Routine, first: datetime, occurrence: datetime, inside: BlackoutPeriod | None
) -> tuple[int, int]:
    """Return the numbers of older occurrences that were missed, and that waited in a blackout.

    Those up to the end of the deferring blackout waited, and those inside the occurrence's own blackout.
    """
    if occurrence == first:
        return 0, 0
    waited_to = first
    if routine.deferred_from is not None and routine.next_at is not None:
        waited_to = min(routine.next_at, occurrence)
    # A late occurrence may lie before the blackout that defers it.
    held_from = occurrence if inside is None else min(occurrence, max(waited_to, inside.start))

    def count_occurrences(start: datetime, end: datetime) -> int:
        return count_between(routine.spec.recurrence, start, end - MICROSECOND, seed=routine.id)

    return count_occurrences(waited_to, held_from), count_occurrences(first, waited_to) + count_occurrences(
        held_from, occurrence
    )


def _plan_skipped(
    routine: Routine, first: datetime, occurrence: datetime, now: datetime, blackout: BlackoutPeriod
) -> RoutinePlan:
    missed, coalesced = _count_older(routine, first, occurrence, blackout)
    after = replace(routine, skips=routine.skips + 1 + coalesced, missed=routine.missed + missed)
    return RoutinePlan(
        verdict=RoutineAction.SKIPPED,
        routine=_advance(after, max(now, occurrence)),
        occurrence=occurrence,
        missed=missed,
        coalesced=coalesced,
        blackout=blackout,
    )


def _plan_missed(routine: Routine, first: datetime, occurrence: datetime, now: datetime) -> RoutinePlan:
    missed = sum(_count_older(routine, first, occurrence, None)) + 1
    return RoutinePlan(
        verdict=RoutineAction.MISSED,
        routine=_advance(replace(routine, missed=routine.missed + missed), now),
        occurrence=occurrence,
        missed=missed,
    )


def _plan_deferred(
    routine: Routine, first: datetime, occurrence: datetime, blackout: BlackoutPeriod | None, until: datetime
) -> RoutinePlan:
    """Defer the occurrence; if it already waits, only the end of the blackout may have moved."""
    if routine.deferred_from is not None:
        return RoutinePlan(
            verdict=RoutineAction.WAIT,
            routine=replace(routine, next_at=until),
            occurrence=routine.deferred_from,
            blackout=blackout,
        )
    missed, coalesced = _count_older(routine, first, occurrence, blackout)
    return RoutinePlan(
        verdict=RoutineAction.DEFERRED,
        routine=replace(routine, next_at=until, deferred_from=occurrence, missed=routine.missed + missed),
        occurrence=occurrence,
        missed=missed,
        coalesced=coalesced,
        blackout=blackout,
    )
