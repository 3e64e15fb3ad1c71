"""A pass: one run of sleep-time work on one bank. The row is the source of truth and the worker's outbox (SLEEP-12)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from circadia.ids import BankId, PassId

FARTHEST: Final = timedelta(hours=2)
"""Longer than any retry delay (`LONGEST_BACK_OFF_SECONDS`). A pass or bank that waits for a later time was written
before the clock was set back."""


class PassStatus(StrEnum):
    PENDING = "pending"
    """Waits for a worker or for the next attempt."""
    RUNNING = "running"
    """Claimed by a process under a lease."""
    SUCCEEDED = "succeeded"
    """Changed something and completed all of its input."""
    NO_CHANGE = "no_change"
    """Completed all of its input without a change."""
    PARTIAL = "partial"
    """Part of the input failed and is kept for later."""
    FAILED = "failed"
    """Published nothing; all of its input is kept for later."""
    CANCELLED = "cancelled"
    """Ended by a person; earlier publications stay."""
    SKIPPED = "skipped"
    """Had nothing to do, or was forbidden, when its turn came; see `detail`."""


_ENDS: Final = frozenset({
    PassStatus.SUCCEEDED, PassStatus.NO_CHANGE, PassStatus.PARTIAL, PassStatus.FAILED, PassStatus.CANCELLED,
    PassStatus.SKIPPED,
})  # fmt: skip

PASS_MOVES: Final[Mapping[PassStatus, frozenset[PassStatus]]] = {
    PassStatus.PENDING: frozenset({PassStatus.RUNNING, PassStatus.CANCELLED, PassStatus.SKIPPED}),
    # Back to pending: it yielded to a wake, or its lease ran out.
    PassStatus.RUNNING: frozenset({PassStatus.PENDING, *_ENDS}),
    **{end: frozenset[PassStatus]() for end in _ENDS},
}  # fmt: skip


class Trigger(StrEnum):
    """Why a pass was started (SLEEP-01, SLEEP-02)."""

    ASLEEP = "asleep"
    """All agents of the bank fell asleep."""
    IDLE = "idle"
    """No turn arrived for some time."""
    CADENCE = "cadence"
    """A set number of turns completed."""
    LAG = "lag"
    """The oldest turn waited too long."""
    IMPORTANCE = "importance"
    """The summed importance of new turns reached a threshold."""
    ENDED = "ended"
    """A conversation or pulse ended."""
    OVERFLOW = "overflow"
    """A call of one of its agents filled the model's context or was refused as too long."""
    STALE = "stale"
    """A set share of the bank became stale since the last pass."""
    DOCUMENT = "document"
    """Someone other than the sleep tier wrote a block."""
    EVERY = "every"
    """A set time passed since the last pass, and enough conversations have new turns."""
    SCHEDULE = "schedule"
    """Its scheduled time has come."""
    HAND = "hand"
    """A person, program or agent requested it."""
    NEEDED = "needed"
    """Like `HAND`, but the next answer depends on it: it begins at once and never yields."""


ONCE: Final = frozenset({Trigger.HAND, Trigger.SCHEDULE, Trigger.ENDED, Trigger.OVERFLOW})
"""One-time triggers. A pass that yielded after one of these resumes when it is quiet, since nothing else triggers it
again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pass:
    id: PassId
    """Also the id of the worker's job."""
    bank_id: BankId
    trigger: Trigger
    by: str = ""
    """Who requested it, for display; empty if nobody did."""
    instructions: str = ""
    """A person's extra instructions for this pass."""
    operations: Sequence[str] = ()
    """Operations to run; empty means those of the bank's settings."""
    dry_run: bool = False
    """Only propose changes; write nothing."""
    review: bool = False
    """Hold the proposals for a person's review (SLEEP-32)."""
    full: bool = False
    """Reprocess the whole bank before the new input (SLEEP-02)."""
    status: PassStatus = PassStatus.PENDING
    attempt: int = 0
    """Number of starts."""
    epoch: int = 0
    """Fencing number: each start and takeover increments it, and writes with an older one are refused."""
    owner: str | None = None
    """The process that runs it."""
    lease_until: datetime | None = None
    """When the pass counts as dead unless its owner renews the lease."""
    not_before: datetime | None = None
    """Earliest start."""
    created_at: datetime
    started_at: datetime | None = None
    """Start of the present or last attempt."""
    ended_at: datetime | None = None
    run_seconds: float = 0.0
    """Total run time of finished attempts."""
    after: int = 0
    """Number of the last episode before its input."""
    upto: int = 0
    """Number of the last episode of its input; later ones belong to the next pass."""
    generation_before: int | None = None
    """Bank generation at the start."""
    generation_after: int | None = None
    """Bank generation after the last publication; none if nothing was published."""
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    """Applied changes by kind, and refusals."""
    detail: str = ""
    """How it ended, in words."""

    @property
    def is_open(self) -> bool:
        """Whether the pass has not ended."""
        return bool(PASS_MOVES[self.status])


class PassBlocker(StrEnum):
    """The gates of a pass, the cheapest first."""

    DISABLED = "disabled"
    PAUSED = "paused"
    BUSY = "busy"
    BACK_OFF = "back_off"
    PASSES = "passes"
    """The limit of passes per hour is reached."""
    EMPTY = "empty"
    """Nothing is new since the last pass."""
    NOBODY_DUE = "not_yet"
    """Something waits, but no trigger has fired."""
    REPLYING = "replying"
    """A trigger has fired, but an answer is under way."""
