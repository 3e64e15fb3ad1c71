"""Progress of sleep-time work in one bank, and its backlog."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from circadia.ids import BankId


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
