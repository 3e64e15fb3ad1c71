"""What came of an operation's work in hot calls: counts, in which nothing stands that anybody has said (SLEEP-42)."""

from dataclasses import dataclass
from datetime import date

from circadia.ids import BankId


@dataclass(frozen=True, kw_only=True, slots=True)
class Benefit:
    """What an operation has saved a bank's calls on one day; `sleeptime/budget/savings.py` counts it."""

    bank_id: BankId
    """Whose memory."""
    operation: str
    """The operation whose work was of use."""
    day: date
    """The day, in UTC."""
    uses: int
    """How often something that it made was handed to a call."""
    saved_tokens: int
    """Input tokens that hot calls did not read."""
    saved_seconds: float
    """Seconds that they did not take, where the ledger can tell."""
    saved_nanousd: int
    """What those tokens would have cost, in billionths of a US dollar, where the price is known."""
    unpriced_tokens: int
    """Of the tokens, those of models without a known price."""
