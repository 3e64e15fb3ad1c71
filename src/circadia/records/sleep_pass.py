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
    budget_tokens: int | None = None
    """Its own budget, in place of those of the bank and of all banks (SLEEP-87)."""
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Leftover:
    """A range of episodes that a pass could not process; retries use smaller ranges (SLEEP-13)."""

    first: int
    """Number of the first episode."""
    last: int
    """Number of the last episode."""
    failures: int
    """Times that exactly this range failed because of its content, not because of a provider."""
    cause: str
    """The last error, in words."""

    @property
    def is_quarantined(self) -> bool:
        """Whether retries stop until a person allows them."""
        return self.first == self.last and self.failures >= 3


@dataclass(frozen=True, kw_only=True, slots=True)
class SleepState:
    """One row per bank, updated in the transaction that publishes a pass: no input is skipped or processed twice."""

    bank_id: BankId
    cursor: int = 0
    """Number of the last episode that was processed or added to the leftovers."""
    leftovers: Sequence[Leftover] = ()
    """In retry order."""
    failures: int = 0
    """Consecutive failed passes."""
    not_before: datetime | None = None
    """Earliest start of the next pass after failures."""
    paused_by: str | None = None
    """None if the bank is not paused."""
    succeeded_at: datetime | None = None
    """When a pass last completed the whole backlog."""
    scheduled_at: datetime | None = None
    """Start of the last scheduled pass."""
    demotions: int = 0
    """The value of `Bank.demotions` that passes know: their own demotions, and those before the last page."""
    edited_at: datetime | None = None
    """The last `Bank.edited_at` that a pass has seen; equal to the bank's if there is no new edit."""
    gate: str = ""
    """The gate that prevented a pass at the last check; empty if a pass was started."""
    gate_detail: str = ""
    gate_at: datetime | None = None
    """When this gate closed."""
    unstored_turns: int = 0
    """Completed turns since the cursor last moved whose answer is no episode: it has no content, or repeats one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Backlog:
    """Episodes of a bank after the cursor, counted from the episodes themselves."""

    episodes: int = 0
    turns: int = 0
    """Completed turns: answers of agents that were not cut off."""
    importance: float = 0.0
    """Sum over the rated episodes."""
    conversations: int = 0
    oldest_at: datetime | None = None
    """When the first of them was stored."""
    newest_at: datetime | None = None
    """When the last of them was stored."""
    last: int = 0
    """Number of the last episode."""
