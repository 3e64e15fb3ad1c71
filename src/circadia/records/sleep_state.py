"""How far sleep-time work has come in one bank, and what waits there."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from circadia.ids import BankId


@dataclass(frozen=True, kw_only=True, slots=True)
class Leftover:
    """A run of episodes that a pass could not work through; it is tried again, smaller each time (SLEEP-13)."""

    first: int
    """Number of its first episode."""
    last: int
    """Number of its last."""
    failures: int
    """How often just this run of episodes has failed by what it holds, and not by a provider's fault."""
    cause: str
    """What was wrong the last time, in words."""

    @property
    def is_quarantined(self) -> bool:
        """Whether it is tried no more until a person says so."""
        return self.first == self.last and self.failures >= 3


@dataclass(frozen=True, kw_only=True, slots=True)
class OperationPause:
    """An operation that passes leave out since it has cost more than it brought; it is judged anew from the end on."""

    operation: str
    """The operation."""
    at: datetime
    """Since when."""
    until: datetime
    """When it is tried again; past, once a person has said so."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SleepState:
    """One row a bank. It moves in the transaction that publishes a pass, so no input is skipped or taken twice."""

    bank_id: BankId
    """Whose memory."""
    cursor: int = 0
    """Number of the last episode that was worked through, or is among the leftovers."""
    leftovers: Sequence[Leftover] = ()
    """What is to be tried again, in order."""
    failures: int = 0
    """Passes that failed in a row."""
    not_before: datetime | None = None
    """When the next pass may begin after failures."""
    paused_by: str | None = None
    """Who has paused it; none if nobody has."""
    succeeded_at: datetime | None = None
    """When a pass last worked through all that there was."""
    scheduled_at: datetime | None = None
    """When the last pass was begun because its hour had come."""
    demotions: int = 0
    """How many demotions of the bank passes know of (`Bank.demotions`): their own, and those before the last page."""
    edited_at: datetime | None = None
    """The last edit of a block (`Bank.edited_at`) that a pass has seen; equal to the bank's where none is new."""
    gate: str = ""
    """The gate that was closed when it was last looked at; empty if a pass was begun."""
    gate_detail: str = ""
    """The same in words."""
    gate_at: datetime | None = None
    """Since when it is that gate."""
    pauses: Sequence[OperationPause] = ()
    """The last pause of each operation that had one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Backlog:
    """What waits in a bank behind the cursor; counted from the episodes themselves."""

    episodes: int = 0
    """How many."""
    turns: int = 0
    """Completed turns among them: answers of agents that came to their end."""
    importance: float = 0.0
    """Sum of what somebody has judged."""
    conversations: int = 0
    """Conversations that they belong to."""
    oldest_at: datetime | None = None
    """When the first of them was stored."""
    newest_at: datetime | None = None
    """When the last of them was stored."""
    last: int = 0
    """Number of the last of them."""
