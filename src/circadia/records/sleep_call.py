"""A model call of the sleep tier: what the ledger's line does not say, and its answer, which is paid for once."""

from dataclasses import dataclass
from datetime import date, datetime
from typing import Final

from circadia.ids import BankId, CallId, PassId

FORGOTTEN: Final = "forgotten"
"""In the place of an error: the answer was taken out, or is to be dropped when it comes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SleepCall:
    """Belongs to the ledger's line of the same id, which has tokens and price."""

    id: CallId
    """Key of the ledger's line."""
    pass_id: PassId
    """The pass that asked."""
    bank_id: BankId
    """For whose memory."""
    operation: str
    """The operation that asked."""
    key: str
    """SHA-256 of model, operation, prompt and schema: the same question is the same call."""
    answer: str | None = None
    """What the model answered, as JSON; none until it has, or if that was of no use."""
    error: str = ""
    """Why there is no answer, in words."""
    at: datetime
    """When it was asked."""
    lease_until: datetime | None = None
    """When the process that asks counts as dead unless it says that it lives, where there is no answer yet."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SleepCost:
    """What the tier has spent, reservations included."""

    calls: int
    """Number of calls."""
    tokens: int
    """Input and output tokens, or what is reserved for them."""
    nanousd: int
    """Price, or what is reserved for it, in billionths of a US dollar."""
    seconds: float
    """Time that models took."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OperationModelCost:
    """What one operation of a pass asked one model."""

    operation: str
    """The operation."""
    model: str
    """The model."""
    failed: int
    """Calls that gave no answer."""
    spent: SleepCost
    """What they cost."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OperationDayCost:
    """What an operation's calls for one bank cost on one day, reservations included."""

    operation: str
    """The operation."""
    day: date
    """The day, in UTC."""
    first_at: datetime
    """When the first of the calls was asked."""
    unpriced: int
    """Of the calls, those of models without a known price."""
    spent: SleepCost
    """What they cost."""
