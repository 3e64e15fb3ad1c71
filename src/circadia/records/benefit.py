"""Effect of an operation's work on hot calls: counts that contain no conversation text (SLEEP-42)."""

from dataclasses import dataclass
from datetime import date

from circadia.ids import BankId


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
