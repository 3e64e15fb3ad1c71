"""A pass: one run of sleep-time work over one bank. The row is the truth and the outbox of its worker (SLEEP-12)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from circadia.ids import BankId, PassId

FARTHEST: Final = timedelta(hours=2)
"""Longer than any pause before another attempt (`LONGEST_BACK_OFF_SECONDS`): a pass or a bank that
waits for a later time was written before the clock was set back."""


class PassStatus(StrEnum):
    """Where a pass stands."""

    PENDING = "pending"
    """It waits for a worker, or for its next attempt."""
    RUNNING = "running"
    """Taken by a process, under a lease."""
    SUCCEEDED = "succeeded"
    """It has changed something, and all of its input is worked through."""
    NO_CHANGE = "no_change"
    """All of its input is worked through, and there was nothing to change."""
    PARTIAL = "partial"
    """Some of its input failed and is kept for later."""
    FAILED = "failed"
    """Nothing was published; all of its input is kept for later."""
    CANCELLED = "cancelled"
    """A person ended it; what was published before stays."""
    SKIPPED = "skipped"
    """When its turn came, there was nothing to do or something forbade it; `detail` says which."""


_ENDS: Final = frozenset({
    PassStatus.SUCCEEDED, PassStatus.NO_CHANGE, PassStatus.PARTIAL, PassStatus.FAILED, PassStatus.CANCELLED,
    PassStatus.SKIPPED,
})  # fmt: skip

PASS_MOVES: Final[Mapping[PassStatus, frozenset[PassStatus]]] = {
    PassStatus.PENDING: frozenset({PassStatus.RUNNING, PassStatus.CANCELLED, PassStatus.SKIPPED}),
    # Back to pending: it has yielded to a wake, or its lease ran out.
    PassStatus.RUNNING: frozenset({PassStatus.PENDING, *_ENDS}),
    **{end: frozenset[PassStatus]() for end in _ENDS},
}  # fmt: skip
"""The allowed moves."""


class Trigger(StrEnum):
    """What a pass was begun for (SLEEP-01, SLEEP-02)."""

    ASLEEP = "asleep"
    """All agents of the bank fell asleep."""
    IDLE = "idle"
    """No turn came for some time."""
    CADENCE = "cadence"
    """So many turns were completed."""
    LAG = "lag"
    """The oldest turn has waited for too long."""
    IMPORTANCE = "importance"
    """What was said adds up to so much importance."""
    ENDED = "ended"
    """A conversation or a pulse ended."""
    OVERFLOW = "overflow"
    """A call of one of its agents filled the context of its model, or was refused as too long."""
    STALE = "stale"
    """So large a part of the bank has gone stale since the last pass."""
    DOCUMENT = "document"
    """A block was written by somebody other than the sleep tier."""
    EVERY = "every"
    """So much time has passed since the last pass, and so many conversations have something new."""
    SCHEDULE = "schedule"
    """Its hour has come."""
    HAND = "hand"
    """A person, a program or an agent asked for it."""
    NEEDED = "needed"
    """The same, and the next answer depends on it: it begins at once and yields to nobody."""


ONCE: Final = frozenset({Trigger.HAND, Trigger.SCHEDULE, Trigger.ENDED, Trigger.OVERFLOW})
"""What happens once: a pass that was begun for it and has yielded goes on when it is quiet, since nothing else makes
it due again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pass:
    """One run of sleep-time work over one bank."""

    id: PassId
    """Key; also the worker's job."""
    bank_id: BankId
    """Whose memory."""
    trigger: Trigger
    """What it was begun for."""
    by: str = ""
    """Who asked for it, as people read it; empty if nobody did."""
    instructions: str = ""
    """What a person wants of this pass in particular."""
    operations: Sequence[str] = ()
    """Which operations it does; empty are those of the bank's settings."""
    dry_run: bool = False
    """Whether it only proposes, and writes nothing."""
    review: bool = False
    """Whether what it proposes waits for a person (SLEEP-32)."""
    full: bool = False
    """Whether it looks at the whole bank again before what is new (SLEEP-02)."""
    status: PassStatus = PassStatus.PENDING
    """Where it stands."""
    attempt: int = 0
    """Starts so far."""
    epoch: int = 0
    """Fencing number: each start and each takeover adds one, and a writer with an older one is refused."""
    owner: str | None = None
    """The process that runs it."""
    lease_until: datetime | None = None
    """When it counts as dead unless its owner says that it lives."""
    not_before: datetime | None = None
    """When a worker may take it."""
    created_at: datetime
    """When it was asked for."""
    started_at: datetime | None = None
    """When its present or last attempt began."""
    ended_at: datetime | None = None
    """When it ended."""
    run_seconds: float = 0.0
    """How long its attempts that ended have run."""
    after: int = 0
    """Number of the last episode before its input."""
    upto: int = 0
    """Number of the last episode of its input; what comes later belongs to the next pass."""
    generation_before: int | None = None
    """Generation of the bank when it began."""
    generation_after: int | None = None
    """Generation of the bank after its last publication; none if nothing was published."""
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    """Effects by kind of change, and what was refused."""
    detail: str = ""
    """How it ended, in words."""

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return bool(PASS_MOVES[self.status])
