"""Model calls of the sleep tier, what they cost, and what an operation's work saves."""

from dataclasses import dataclass
from datetime import date, datetime
from typing import Final

from circadia.ids import BankId, CallId, PassId

FORGOTTEN: Final = "forgotten"
"""Stored as error: the answer was removed, or must be dropped on arrival."""
WASTED: Final = "wasted"
"""Stored as error: a batch was asked, and what the question rested on has changed since, or its pass is over."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SleepCall:
    """Extends the ledger row of the same id, which has tokens and price."""

    id: CallId
    """Id of the ledger row."""
    pass_id: PassId
    bank_id: BankId
    operation: str
    key: str
    """SHA-256 of model, operation, prompt and schema; equal keys mean the same call."""
    answer: str | None = None
    """JSON; none until answered, or if the answer was unusable."""
    error: str = ""
    """Why there is no answer, in words."""
    at: datetime
    lease_until: datetime | None = None
    """While unanswered: when the calling process counts as dead unless it renews the lease."""
    thinking_nanousd: int = 0
    """Price of the thinking, where it is known."""
    own_budget: bool = False
    """Whether its pass has a budget of its own, so that it does not count against others."""
    batch: str | None = None
    """Our key of the provider's batch that asks it; none if it is asked at once."""
    batch_id: str | None = None
    """The provider's id of that batch; none until it is known to be submitted."""
    used: bool = False
    """Whether the pass has published what a batch answered."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SleepCost:
    """Spending of the sleep tier, reservations included."""

    calls: int
    tokens: int
    """Input and output tokens, or the reservation for them."""
    nanousd: int
    """Price, or the reservation for it, in billionths of a US dollar."""
    seconds: float
    """Total model time."""
    thinking_tokens: int = 0
    """Output tokens for thinking, where the provider reports them."""
    thinking_nanousd: int = 0
    """Price of these, where it is known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OperationModelCost:
    """Cost of an operation's calls of one model in a pass."""

    operation: str
    model: str
    failed: int
    """Calls without an answer."""
    spent: SleepCost


@dataclass(frozen=True, kw_only=True, slots=True)
class Benefit:
    """Savings of an operation for one bank and UTC day, as counted by `sleeptime/budget/savings.py`."""

    bank_id: BankId
    operation: str
    day: date
    uses: int
    """Times that a call received one of its results."""
    saved_tokens: int
    """Input tokens that hot calls did not have to read."""
    saved_seconds: float
    """Time that hot calls did not take, where the ledger shows it."""
    saved_nanousd: int
    """Price of the saved tokens in billionths of a US dollar, where it is known."""
    unpriced_tokens: int
    """Saved tokens of models without a known price."""
