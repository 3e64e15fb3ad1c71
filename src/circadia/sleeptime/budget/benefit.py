"""Whether an operation is worth its cost: one rule, from counts alone (SLEEP-42).

Benefit and cost of the whole UTC days of a window are compared: in US dollars if the prices of all calls on both sides
are known, else in tokens, where those of hot calls count `hot_weight` times. Failed and dropped calls and unused
predictions cost like any other; what was of no use has no benefit.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from circadia.records.benefit import Benefit
from circadia.records.sleep_call import OperationDayCost
from circadia.records.sleep_state import BalanceStatus, OperationPause
from circadia.settings.sleeptime import BenefitSettings

_NANOUSD: Final = 1e9


@dataclass(frozen=True, kw_only=True, slots=True)
class Balance:
    """An operation's benefit to a bank and its cost in the window."""

    operation: str
    uses: int
    """How often a call got something that it made."""
    saved_tokens: int
    """Input tokens that hot calls did not read."""
    saved_seconds: float
    """Time that they saved, where it is known."""
    saved_nanousd: int
    """The price of those tokens, where it is known."""
    calls: int
    """Its model calls, failed ones included."""
    spent_tokens: int
    spent_nanousd: int
    """The price of those calls, where it is known."""
    unit: str
    """The compared unit: `usd` or `tokens`."""
    ratio: float | None
    """Benefit over cost; none without cost."""
    standing: BalanceStatus
    paused_until: datetime | None
    """When a paused operation is tried again."""


VERIFY: Final = "verify"
"""What verdicts on notes and blocks are charged to: not an operation, so it is never paused."""


def window_of(settings: BenefitSettings) -> timedelta:
    return timedelta(days=settings.window_days)


def list_paused_operations(
    settings: BenefitSettings, pauses: Iterable[OperationPause], now: datetime
) -> frozenset[str]:
    if not settings.enabled:
        return frozenset()
    return frozenset(
        pause.operation for pause in pauses if now < pause.until and pause.operation not in settings.spared
    )


def compute_balances(
    settings: BenefitSettings,
    pauses: Sequence[OperationPause],
    gains: Sequence[Benefit],
    costs: Sequence[OperationDayCost],
    now: datetime,
) -> Sequence[Balance]:
    """Return the balance of each operation with a cost or a benefit; `costs` span two windows."""
    names = sorted({row.operation for row in (*pauses, *gains, *costs)})
    return [
        _compute_balance(
            settings,
            name,
            next((pause for pause in pauses if pause.operation == name), None),
            [gain for gain in gains if gain.operation == name],
            [cost for cost in costs if cost.operation == name],
            now,
        )
        for name in names
    ]


def _compute_balance(
    settings: BenefitSettings,
    name: str,
    pause: OperationPause | None,
    gains: Sequence[Benefit],
    costs: Sequence[OperationDayCost],
    now: datetime,
) -> Balance:
    start = anew = now - window_of(settings)
    resumed = None if pause is None or now < pause.until else pause.until
    if resumed is not None:  # earlier counts no longer matter
        anew = max(start, resumed)
        costs = [cost for cost in costs if cost.day >= resumed.date()]
    first = min((cost.first_at for cost in costs), default=now)
    first = first if resumed is None else max(first, resumed)
    gains = [gain for gain in gains if gain.day >= anew.date()]
    costs = [cost for cost in costs if cost.day >= anew.date()]
    calls, tokens = sum(cost.spent.calls for cost in costs), sum(cost.spent.tokens for cost in costs)
    nanousd, saved = sum(cost.spent.nanousd for cost in costs), sum(gain.saved_tokens for gain in gains)
    saved_nanousd = sum(gain.saved_nanousd for gain in gains)
    priced = not any(gain.unpriced_tokens for gain in gains) and not any(cost.unpriced for cost in costs)
    cost, benefit = (nanousd, saved_nanousd) if priced else (tokens, saved * settings.hot_weight)
    ratio = benefit / cost if cost else None
    if name in list_paused_operations(settings, () if pause is None else (pause,), now):
        standing = BalanceStatus.PAUSED
    elif ratio is None:
        standing = BalanceStatus.FREE
    elif not settings.enabled or name in (*settings.spared, VERIFY):
        standing = BalanceStatus.SPARED
    elif calls < settings.min_calls or (priced and nanousd < settings.min_cost_usd * _NANOUSD):
        standing = BalanceStatus.LITTLE
    elif first > start:
        standing = BalanceStatus.NEW
    else:
        standing = BalanceStatus.SHORT if ratio < settings.least_ratio else BalanceStatus.PAYS
    return Balance(
        operation=name, uses=sum(gain.uses for gain in gains), saved_tokens=saved,
        saved_seconds=sum(gain.saved_seconds for gain in gains), saved_nanousd=saved_nanousd, calls=calls,
        spent_tokens=tokens, spent_nanousd=nanousd, unit="usd" if priced else "tokens", ratio=ratio,
        standing=standing, paused_until=pause.until if pause and standing is BalanceStatus.PAUSED else None,
    )  # fmt: skip
