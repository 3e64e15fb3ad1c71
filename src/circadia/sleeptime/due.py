"""When a bank is due for a pass, and if not, why not: one function of what is known and of the time (SLEEP-01 … 03).

The gates stand in order of what they cost; the first that is closed is the answer. Nothing here asks a model, and
nothing is counted beside the rows: what waits is counted from the episodes behind the cursor.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, Literal

from circadia.records.sleep_pass import FARTHEST, Trigger
from circadia.records.sleep_state import Backlog, SleepState

IDLE_SECONDS: Final = 60.0
"""SLEEP-01."""
FREQUENCY_TURNS: Final = 5
"""SLEEP-01."""
LONGEST_REPLY_SECONDS: Final = 600.0
"""An answer that is under way for longer holds nothing back: its end was not seen."""
LATE_SECONDS: Final = 10.0
"""What was said before a conversation or a pulse ended is written within so long after it."""
PASSES_AN_HOUR: Final = 12
"""SLEEP-40."""


class Gate(StrEnum):
    """What a pass has to get through, the cheapest first."""

    DISABLED = "disabled"
    """Sleep-time compute is switched off for the bank."""
    PAUSED = "paused"
    """A person has paused it."""
    BUSY = "busy"
    """A pass of the bank has not ended."""
    BACK_OFF = "back_off"
    """Passes have failed; the next one waits."""
    PASSES = "passes"
    """So many passes have begun within the hour."""
    EMPTY = "empty"
    """Nothing was said since the last pass."""
    NOBODY_DUE = "not_yet"
    """Something waits, but no trigger has fired."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """The triggers of a bank."""

    enabled: bool = True
    """Whether there are passes at all."""
    idle_seconds: float = IDLE_SECONDS
    """Quiet after which the bank counts as idle."""
    frequency_turns: int = FREQUENCY_TURNS
    """Completed turns after which a pass is due though it is not idle; 0 switches this off."""
    max_lag_seconds: float = 3600.0
    """Longest wait of a turn, however busy the bank is."""
    importance: float = 5.0
    """Sum of importance that makes a pass due; 0 switches this off."""
    overflow_share: float = 0.8
    """Share of a model's context that a call filled and that makes a pass due; 0 switches this off."""
    stale_share: float = 0.2
    """Share of the bank that has gone stale and that makes a pass due; 0 switches this off."""
    passes_an_hour: int = PASSES_AN_HOUR
    """Passes that may begin within an hour."""
    fleet_passes_an_hour: int = 600
    """The same over all banks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class End:
    """The end of something that an agent of the bank took part in."""

    of: Literal["conversation", "pulse"]
    """What ended."""
    at: datetime
    """When it did."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """What is known of a bank at one instant."""

    state: SleepState
    """How far the work has come."""
    backlog: Backlog
    """What waits."""
    asleep_since: datetime | None
    """Since when all its agents sleep; none if one is awake, or if it has none."""
    busy: bool
    """Whether a pass has not ended."""
    begun: int
    """Passes that began within the last hour."""
    begun_at: datetime | None = None
    """When the first of them began."""
    fleet_begun: int = 0
    """Passes over all banks that began within the last hour."""
    turn_at: datetime | None = None
    """When the last turn began, as far as this process has seen."""
    replying_since: datetime | None = None
    """Since when an answer is under way, as far as this process has seen; none if none is."""
    ended: End | None = None
    """The last end of a conversation or a pulse of one of its agents, as far as this process has seen; none if none
    was since a pass was begun."""
    filled: float = 0.0
    """The largest share of a model's context that a call of its agents has filled since the last pass began, as far as
    this process has seen; 1 if one was refused as too long."""
    stale: float = 0.0
    """The share of the bank that has gone stale since the last pass: episodes that somebody other than a pass has
    demoted, and notes that he has retired, if that still stands, of all its episodes and notes. What passes themselves
    demote, or take back, does not count, since they have looked at what follows from it. Vectors that are missing or of
    another embedder do not count either: `memory/embedding/background.py` makes them anew beside the passes, and these
    derive notes and blocks without them. 0 where it is less than the share that makes a pass due, so that counting
    stops there."""
    edited_at: datetime | None = None
    """When somebody other than the sleep tier last wrote a block that no pass has seen; none if there is none."""
    scheduled_at: datetime | None = None
    """The last hour of its schedules for which no pass was begun; none if there is none."""
    full: bool = False
    """Whether one of the schedules whose hour that is asks for the whole bank."""
    next_at: datetime | None = None
    """The next hour of its schedules."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """Whether a pass begins now."""

    trigger: Trigger | None
    """What for; none if it does not."""
    gate: Gate | None
    """The gate that is closed; none if it begins."""
    detail: str
    """The same in words."""
    at: datetime | None
    """When to look again, if nothing happens before; none if that makes no sense."""
    full: bool = False
    """Whether the pass looks at the whole bank."""


def due(rules: Rules, known: Known, now: datetime) -> Verdict:
    """Return whether a pass over the bank begins now, and why or why not."""
    state, backlog = known.state, known.backlog
    if not rules.enabled:
        return _closed(Gate.DISABLED, "sleep-time compute is switched off for this bank")
    if state.paused_by is not None:
        return _closed(Gate.PAUSED, f"paused by {state.paused_by}")
    if known.busy:
        return _closed(Gate.BUSY, "a pass of this bank has not ended")
    if state.not_before is not None and now < state.not_before <= now + FARTHEST:
        return _closed(Gate.BACK_OFF, f"{state.failures} passes failed in a row", state.not_before)
    if known.begun >= rules.passes_an_hour:
        again = None if known.begun_at is None else known.begun_at + timedelta(hours=1)
        return _closed(Gate.PASSES, f"{known.begun} passes have begun within the hour", again)
    if known.fleet_begun >= rules.fleet_passes_an_hour:
        return _closed(Gate.PASSES, f"{known.fleet_begun} passes over all banks have begun within the hour")
    if known.scheduled_at is not None:
        detail = f"its hour came at {known.scheduled_at}"
        return Verdict(trigger=Trigger.SCHEDULE, gate=None, detail=detail, at=None, full=known.full)
    if not backlog.episodes or backlog.oldest_at is None or backlog.newest_at is None:
        tried = [left for left in state.leftovers if not left.quarantined]
        if tried:
            return Verdict(trigger=Trigger.IDLE, gate=None, detail="what failed before is tried again", at=None)
        return _without_turns(rules, known, now)
    return _triggered(rules, known, backlog.oldest_at, backlog.newest_at, now)


def _without_turns(rules: Rules, known: Known, now: datetime) -> Verdict:
    """Return what the triggers say of a bank in which nothing new was said, but others may have changed something."""
    since = known.replying_since
    replying = since is not None and now < since + timedelta(seconds=LONGEST_REPLY_SECONDS)
    if not replying and 0 < rules.stale_share <= known.stale:
        return Verdict(trigger=Trigger.STALE, gate=None, detail=_stale(known), at=None)
    if known.edited_at is None:
        return _closed(Gate.EMPTY, "nothing was said since the last pass", known.next_at)
    quiet_at = max(known.edited_at, known.turn_at or known.edited_at) + timedelta(seconds=rules.idle_seconds)
    if known.asleep_since is not None or (now >= quiet_at and not replying):
        return Verdict(trigger=Trigger.DOCUMENT, gate=None, detail="a block was written by somebody else", at=None)
    at = now + timedelta(seconds=rules.idle_seconds) if replying else quiet_at
    detail = "nothing was said since the last pass; a block was written by somebody else"
    return _closed(Gate.NOBODY_DUE, detail, min(at, known.next_at or at))


def _triggered(rules: Rules, known: Known, oldest: datetime, newest: datetime, now: datetime) -> Verdict:
    """Return what the triggers say; the first whose time has come, or when the first one's time will come."""
    backlog = known.backlog
    idle_at = max(newest, known.turn_at or newest) + timedelta(seconds=rules.idle_seconds)
    lag_at = oldest + timedelta(seconds=rules.max_lag_seconds)
    full = "was too long for its model" if known.filled >= 1 else f"filled {known.filled:.0%} of its model's context"
    fired = [
        (Trigger.ASLEEP, known.asleep_since is not None, "all its agents sleep"),
        (Trigger.LAG, now >= lag_at, f"the oldest turn has waited for {rules.max_lag_seconds:g} s"),
        (Trigger.ENDED, *_ended(known.ended, oldest)),
        (Trigger.OVERFLOW, 0 < rules.overflow_share <= known.filled, f"a call {full}"),
        (Trigger.IDLE, now >= idle_at, f"nothing was said for {rules.idle_seconds:g} s"),
        (Trigger.CADENCE, 0 < rules.frequency_turns <= backlog.turns, f"{backlog.turns} turns were completed"),
        (
            Trigger.IMPORTANCE,
            0 < rules.importance <= backlog.importance,
            f"what was said adds up to an importance of {backlog.importance:g}",
        ),
        (Trigger.STALE, 0 < rules.stale_share <= known.stale, _stale(known)),
    ]
    since = known.replying_since
    if since is not None and now < since + timedelta(seconds=LONGEST_REPLY_SECONDS):
        fired = [each for each in fired if each[0] in (Trigger.ASLEEP, Trigger.LAG)]
        idle_at = now + timedelta(seconds=rules.idle_seconds)
    for trigger, has, words in fired:
        if has:
            return Verdict(trigger=trigger, gate=None, detail=words, at=None)
    return _closed(
        Gate.NOBODY_DUE,
        f"{backlog.episodes} episodes wait; {backlog.turns} of {rules.frequency_turns} turns are completed",
        min(idle_at, lag_at, known.next_at or lag_at),
    )


def _ended(end: End | None, oldest: datetime) -> tuple[bool, str]:
    """Return whether what waits was said before that end, and what it was the end of."""
    if end is None:
        return False, ""
    return oldest <= end.at + timedelta(seconds=LATE_SECONDS), f"a {end.of} of one of its agents has ended"


def _stale(known: Known) -> str:
    return f"{known.stale:.0%} of the bank has gone stale since the last pass"


def _closed(gate: Gate, detail: str, at: datetime | None = None) -> Verdict:
    return Verdict(trigger=None, gate=gate, detail=detail, at=at)
