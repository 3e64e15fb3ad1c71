"""Decides whether a bank is due for a pass, from its state and the time alone (SLEEP-01 … 03).

The gates are ordered by cost; the first closed one is the answer. Nothing here asks a model, and the backlog is counted
from the episodes behind the cursor. The hours of a bank's schedules are here too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

from circadia.records.schedule import Recurrence
from circadia.records.sleep_pass import FARTHEST, Backlog, PassBlocker, SleepState, Trigger
from circadia.settings.sleeptime import SleepPolicySettings
from circadia.wake.scheduling.planning import SET_BACK
from circadia.wake.scheduling.recurrence import last_between, next_after

QUIET_SECONDS: Final = 60.0
"""Quiet before a pass for an edited block in a bank without the trigger `idle`."""
LONGEST_REPLY_SECONDS: Final = 600.0
"""Age above which an open answer holds nothing back: its end was missed."""
LATE_SECONDS: Final = 10.0
"""Delay within which the last turns of a conversation or pulse are written after its end."""
_HOUR: Final = timedelta(hours=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class ActivityEnd:
    of: Literal["conversation", "pulse"]
    at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class BankSleepStatus:
    state: SleepState
    backlog: Backlog
    asleep: bool
    """Whether it has agents, and all of them sleep."""
    busy: bool
    begun: int
    """Passes that began within the last hour."""
    fleet_begun: int = 0
    """Passes over all banks that began within the last hour."""
    fleet_limit: int = 600
    rested_at: datetime | None = None
    """When a pass last processed the whole backlog; before the first one, when the bank was created."""
    turn_at: datetime | None = None
    replying_since: datetime | None = None
    """Since when an answer is under way; none without one."""
    ended: ActivityEnd | None = None
    """The last end of a conversation or pulse that this process has seen, if no pass has begun for it."""
    filled: float = 0.0
    """Largest share of a model's context that a call has filled since the last pass began, as seen by this process; 1
    if one was refused as too long."""
    stale: float = 0.0
    """Share of the bank's episodes and notes that others than passes have demoted or retired since the last pass, if
    not restored. Changes by passes do not count, since they have processed their consequences. Nor do missing or
    outdated vectors: `memory/embedding/background.py` makes them, and passes do not need them. 0 below the share
    that makes a pass due, where counting stops."""
    edited_at: datetime | None = None
    """When somebody other than the sleep tier last wrote a block that no pass has seen."""
    scheduled_at: datetime | None = None
    """The last hour of its schedules without a pass."""
    full: bool = False
    """Whether one of those schedules asks for the whole bank."""
    next_at: datetime | None = None
    once: Trigger | None = None
    """The trigger of a pending pass, if it fires only once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PassDecision:
    trigger: Trigger | None
    """Why it begins; none if it does not."""
    gate: PassBlocker | None
    """The closed gate; none if it begins."""
    detail: str
    at: datetime | None
    """When to check again if nothing happens before; none if only an event helps."""
    full: bool = False


_Sign = tuple[Trigger, datetime | None, str]
"""A trigger, when it fires (none if only an event can bring that), and its description then."""


def decide_pass(policy: SleepPolicySettings, status: BankSleepStatus, now: datetime) -> PassDecision:
    closed = _find_closed_gate(policy, status, now)
    if closed is not None:
        return closed
    signs = _list_signs(policy, status, now)
    fired = [sign for sign in signs if sign[1] is not None and sign[1] <= now]
    since = status.replying_since
    reply_ends = None if since is None else since + timedelta(seconds=LONGEST_REPLY_SECONDS)
    for trigger, _, words in fired:
        if trigger is Trigger.LAG or reply_ends is None or reply_ends <= now:
            full = trigger is Trigger.SCHEDULE and status.full
            return PassDecision(trigger=trigger, gate=None, detail=words, at=None, full=full)
    if fired:
        return _closed_verdict(PassBlocker.REPLYING, f"an answer is under way; {fired[0][2]}", reply_ends)
    at = min((at for at in (*(at for _, at, _ in signs), status.next_at) if at is not None), default=None)
    if status.backlog.episodes:
        return _closed_verdict(PassBlocker.NOBODY_DUE, _describe_backlog(policy, status.backlog, at), at)
    nothing = "nothing was said since the last pass"
    if policy.documents and status.edited_at is not None:
        return _closed_verdict(PassBlocker.NOBODY_DUE, f"{nothing}; a block was written by somebody else", at)
    return _closed_verdict(PassBlocker.EMPTY, nothing, at)


def _find_closed_gate(policy: SleepPolicySettings, status: BankSleepStatus, now: datetime) -> PassDecision | None:
    """Return the first gate that is closed whatever the triggers say."""
    state = status.state
    if not policy.enabled:
        return _closed_verdict(PassBlocker.DISABLED, "sleep-time compute is switched off for this bank")
    if state.paused_by is not None:
        return _closed_verdict(PassBlocker.PAUSED, f"paused by {state.paused_by}")
    if status.busy:
        return _closed_verdict(PassBlocker.BUSY, "a pass of this bank has not ended")
    if state.not_before is not None and now < state.not_before <= now + FARTHEST:
        return _closed_verdict(PassBlocker.BACK_OFF, f"{state.failures} passes failed in a row", state.not_before)
    if status.begun >= policy.passes_per_hour:
        return _closed_verdict(PassBlocker.PASSES, f"{status.begun} passes have begun within the hour")
    if status.fleet_begun >= status.fleet_limit:
        return _closed_verdict(
            PassBlocker.PASSES, f"{status.fleet_begun} passes over all banks have begun within the hour"
        )
    return None


def _list_signs(policy: SleepPolicySettings, status: BankSleepStatus, now: datetime) -> Sequence[_Sign]:
    """Return the enabled triggers, in order of precedence."""
    backlog = status.backlog
    oldest, newest = backlog.oldest_at, backlog.newest_at
    if oldest is not None and newest is not None:
        signs = _list_turn_signs(policy, status, oldest, newest, now)
    elif any(not left.is_quarantined for left in status.state.leftovers) and policy.idle_seconds is not None:
        signs = [(Trigger.IDLE, now, "what failed before is tried again")]
    else:
        signs = []
    scheduled: _Sign = (Trigger.SCHEDULE, status.scheduled_at, f"its hour came at {status.scheduled_at}")
    stale_at = now if policy.stale_share and status.stale >= policy.stale_share else None
    stale: _Sign = (Trigger.STALE, stale_at, f"{status.stale:.0%} of the bank has gone stale since the last pass")
    activity_times = [instant for instant in (newest, status.turn_at, status.edited_at) if instant is not None]
    quiet = QUIET_SECONDS if policy.idle_seconds is None else policy.idle_seconds
    edited = None
    if policy.documents and status.edited_at is not None:
        edited = now if status.asleep else max(activity_times) + timedelta(seconds=quiet)
    return [scheduled, *signs, stale, (Trigger.DOCUMENT, edited, "a block was written by somebody else")]


def _list_turn_signs(
    policy: SleepPolicySettings, status: BankSleepStatus, oldest: datetime, newest: datetime, now: datetime
) -> Sequence[_Sign]:
    """Return the triggers that need a new turn."""
    backlog, lag, idle = status.backlog, policy.max_lag_minutes, policy.idle_seconds
    full = "was too long for its model" if status.filled >= 1 else f"filled {status.filled:.0%} of its model's context"
    end = status.ended
    before_end = policy.at_end and end is not None and oldest <= end.at + timedelta(seconds=LATE_SECONDS)
    overflows = policy.overflow_share and status.filled >= policy.overflow_share
    completed = policy.frequency_turns and backlog.turns >= policy.frequency_turns
    matters = policy.importance and backlog.importance >= policy.importance
    return [
        *([] if status.once is None else [(status.once, now, "it was begun for that")]),
        (Trigger.ASLEEP, now if policy.asleep and status.asleep else None, "all its agents sleep"),
        (
            Trigger.LAG,
            oldest + timedelta(minutes=lag) if lag else None,
            f"the oldest turn has waited for {lag or 0:g} minutes",
        ),
        (
            Trigger.ENDED,
            now if before_end else None,
            f"a {'' if end is None else end.of} of one of its agents has ended",
        ),
        (Trigger.OVERFLOW, now if overflows else None, f"a call {full}"),
        (
            Trigger.IDLE,
            None if idle is None else max(newest, status.turn_at or newest) + timedelta(seconds=idle),
            f"nothing was said for {idle or 0:g} s",
        ),
        (Trigger.CADENCE, now if completed else None, f"{backlog.turns} turns were completed"),
        (
            Trigger.IMPORTANCE,
            now if matters else None,
            f"what was said adds up to an importance of {backlog.importance:g}",
        ),
        (
            Trigger.EVERY,
            _interval_due_at(policy, status, oldest, now),
            f"{backlog.conversations} conversations have something new since the last pass",
        ),
    ]


def _interval_due_at(
    policy: SleepPolicySettings, status: BankSleepStatus, oldest: datetime, now: datetime
) -> datetime | None:
    """Return when the interval since the last pass ends, if enough conversations have new turns."""
    if status.backlog.conversations < (policy.conversations or 0):
        return None
    if policy.every_hours is None:
        return now if policy.conversations else None
    return min(status.rested_at or oldest, oldest) + timedelta(hours=policy.every_hours)


def _describe_backlog(policy: SleepPolicySettings, backlog: Backlog, at: datetime | None) -> str:
    parts = [f"{backlog.episodes} episodes wait"]
    if policy.frequency_turns:
        parts.append(f"{backlog.turns} of {policy.frequency_turns} turns are completed")
    if policy.conversations:
        parts.append(f"{backlog.conversations} of {policy.conversations} conversations have something new")
    if at is None and not describe_triggers(policy, ""):
        parts.append("passes begin only when asked for")
    return "; ".join(parts)


def describe_triggers(policy: SleepPolicySettings, zone: str) -> Mapping[Trigger, str]:
    hours = [
        f"`{schedule.cron}` ({schedule.zone or zone})"
        + (f", for {schedule.within_hours:g} h" if schedule.within_hours else "")
        + (", over the whole bank" if schedule.full else "")
        for schedule in policy.schedules
    ]
    every = [f"{policy.every_hours:g} h since the last pass"] if policy.every_hours else []
    every += [f"{policy.conversations} conversations with something new"] if policy.conversations else []
    descriptions: Mapping[Trigger, str | bool] = {
        Trigger.ASLEEP: policy.asleep and "all agents of the bank sleep",
        Trigger.IDLE: policy.idle_seconds is not None and f"nothing was said for {policy.idle_seconds:g} s",
        Trigger.CADENCE: bool(policy.frequency_turns) and f"{policy.frequency_turns} completed turns",
        Trigger.LAG: bool(policy.max_lag_minutes) and f"a turn has waited for {policy.max_lag_minutes:g} minutes",
        Trigger.IMPORTANCE: bool(policy.importance) and f"an importance of {policy.importance:g} in all",
        Trigger.ENDED: policy.at_end and "the end of a conversation or a pulse",
        Trigger.OVERFLOW: bool(policy.overflow_share) and f"a call fills {policy.overflow_share:.0%} of its context",
        Trigger.STALE: bool(policy.stale_share) and f"{policy.stale_share:.0%} of the bank has gone stale",
        Trigger.DOCUMENT: policy.documents and "somebody else has written a block",
        Trigger.EVERY: " and ".join(every),
        Trigger.SCHEDULE: "; ".join(hours),
    }
    return {trigger: words for trigger, words in descriptions.items() if isinstance(words, str) and words}


def _closed_verdict(gate: PassBlocker, detail: str, at: datetime | None = None) -> PassDecision:
    return PassDecision(trigger=None, gate=gate, detail=detail, at=at)


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
