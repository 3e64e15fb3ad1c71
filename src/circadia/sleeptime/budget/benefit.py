"""What the operations of passes cost in a bank, and what calls had from them: counts of the last days."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from circadia.records.sleep_call import Benefit, SleepCost

WINDOW: Final = timedelta(days=14)
"""Time that is told."""
VERIFY: Final = "verify"
"""What verdicts on notes and blocks are charged to: not an operation."""
_NOTHING: Final = SleepCost(calls=0, tokens=0, nanousd=0, seconds=0.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Balance:
    """An operation's use to a bank and its cost in the window."""

    operation: str
    uses: int
    """How often a call got something that it made."""
    saved_tokens: int
    """Input tokens that hot calls did not read."""
    saved_seconds: float
    """Time that they saved, where it is known."""
    saved_nanousd: int
    """The price of those tokens, where it is known."""
    spent: SleepCost
    """Its model calls, failed ones included."""


def compute_balances(gains: Sequence[Benefit], costs: Mapping[str, SleepCost]) -> Sequence[Balance]:
    """Return the balance of each operation with a cost or a use, by name."""
    names = sorted({gain.operation for gain in gains} | costs.keys())
    return [
        _compute_balance(name, [gain for gain in gains if gain.operation == name], costs.get(name, _NOTHING))
        for name in names
    ]


def _compute_balance(name: str, gains: Sequence[Benefit], spent: SleepCost) -> Balance:
    return Balance(
        operation=name,
        uses=sum(gain.uses for gain in gains),
        saved_tokens=sum(gain.saved_tokens for gain in gains),
        saved_seconds=sum(gain.saved_seconds for gain in gains),
        saved_nanousd=sum(gain.saved_nanousd for gain in gains),
        spent=spent,
    )
