"""How sleep-time work stands over all banks, measured now and then; a bank that turns red is told in the record.

The servers of one database tell together: what is told stands there, so each condition has one alert and, when it is
over, one all-clear, whichever of them sees it first and whichever lives on.

Something is wrong with a bank whose oldest turn has waited for twice as long as its policy says, or has missed an hour
of its schedules, though nobody has paused it, and with one whose passes fail in a row (SLEEP-60).
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from typing import Final

from circadia.clock import Clock
from circadia.errors import CircadiaError
from circadia.ids import BankId
from circadia.records.bank import Bank
from circadia.records.event import Event, EventType
from circadia.sleeptime.engine.services import SleeptimeService
from circadia.stores.base import Store, Tx

_logger = logging.getLogger(__name__)

EVERY_SECONDS: Final = 15.0
CAUSE: Final = "sleep_time"
"""Cause of the alert."""
OVER: Final = "sleep_time_over"
"""Cause of the all-clear."""
_RED_BANK: Final = "red_bank"
"""What is noted, by bank, of banks that are told to be red."""
MIN_ALERT_AGE: Final = timedelta(minutes=1)
"""A bank is told to be well so long after it was told to be red at the earliest: clocks of servers differ."""
DAY: Final = timedelta(days=1)
_NANOUSD: Final = 1e9
_MAX_BANKS: Final = 20
"""Banks that one alert names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SleepHealthSample:
    """How it stood when it was last measured."""

    banks: int = 0
    """Banks with a backlog or leftovers."""
    episodes: int = 0
    """Episodes behind their cursors."""
    lag_seconds: float = 0.0
    """How long the oldest turn has waited where passes are on and not paused."""
    failures: int = 0
    """Passes that failed in a row, of the worst bank."""
    tokens: int = 0
    """What passes have used within a day."""
    usd: float = 0.0
    """What they have cost within a day."""
    spent_today: int = 0
    """Tokens that passes have used since midnight (UTC)."""
    saved_today: int = 0
    """Tokens that hot calls were spared since then by what passes made."""
    red: Mapping[str, str] = field(default_factory=dict[str, str])
    """What is wrong, by name of the bank."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _BankHealth:
    """How it stands with one bank."""

    episodes: int
    """Episodes behind its cursor."""
    failures: int
    """Passes that failed in a row."""
    lag_seconds: float
    """How long its oldest turn has waited; 0 where passes are off or paused."""
    why: str
    """What is wrong; empty if all is well."""


class SleepHealth:
    """Measures beside the requests."""

    def __init__(self, clock: Clock, store: Store, tier: SleeptimeService) -> None:
        self._clock = clock
        self._store = store
        self._tier = tier
        self.seen = SleepHealthSample()

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            try:
                await self.step()
            except CircadiaError as error:
                _logger.warning("sleep-time work cannot be measured yet: %s", error)
            except Exception:  # the next look may pass, and nobody else does this work
                _logger.exception("sleep-time work could not be measured")
            await self._clock.sleep(EVERY_SECONDS)

    async def step(self) -> None:
        """Measure once, and tell of banks that have turned red, or are well again."""
        async with self._store.begin_read() as tx:
            self.seen, red = await self._measure_all(tx)
            told = await tx.alerts.find_alert_times(_RED_BANK)
        changed = [BankId(each) for each in {*red} ^ {*told}]
        if any(self._may_alert(told.get(each)) for each in changed):
            async with self._store.begin_write() as tx:
                await self._write_alerts(tx, changed)

    def _may_alert(self, told_at: datetime | None) -> bool:
        return told_at is None or abs(self._clock.now() - told_at) >= MIN_ALERT_AGE

    async def _write_alerts(self, tx: Tx, banks: Sequence[BankId]) -> None:
        """Tell what holds of these banks now, of what is not told: another server may have been first."""
        told, now = await tx.alerts.find_alert_times(_RED_BANK), self._clock.now()
        new: dict[str, str] = {}
        over: list[str] = []
        for bank_id in banks:
            bank = await tx.banks.get(bank_id)
            why = "" if bank is None else (await self._measure_bank(tx, bank)).why
            if bank is not None and why and bank_id not in told:
                new[bank.name] = why
                await tx.alerts.record_alert(_RED_BANK, bank_id, now)
            elif not why and bank_id in told and self._may_alert(told[bank_id]):
                over += [] if bank is None else [bank.name]
                await tx.alerts.clear_alert(_RED_BANK, bank_id)
        data: list[Mapping[str, object]] = []
        if new:
            data.append({"cause": CAUSE, "banks": dict(list(new.items())[:_MAX_BANKS]), "red": len(self.seen.red)})
        if over:
            data.append({"cause": OVER, "banks": over[:_MAX_BANKS], "red": len(self.seen.red)})
        await tx.events.add([Event(type=EventType.ALERT, at=now, data=each) for each in data])

    async def _measure_bank(self, tx: Tx, bank: Bank) -> _BankHealth:
        policy, state = self._tier.policy(bank), await tx.sleep_states.get(bank.id)
        backlog = await tx.sleep_states.fetch_backlog(bank.id, state.cursor)
        oldest, hours = backlog.oldest_at, await self._tier.load_hours(tx, bank)
        lag = 0.0 if oldest is None else max(0.0, (self._clock.now() - oldest).total_seconds())
        return _BankHealth(
            episodes=backlog.episodes,
            failures=state.failures,
            why=self._tier.describe_problem(bank, state, backlog, hours),
            lag_seconds=lag if policy.enabled and state.paused_by is None else 0.0,
        )

    async def _measure_all(self, tx: Tx) -> tuple[SleepHealthSample, Mapping[BankId, str]]:
        """Return how all banks stand, and what is wrong with which."""
        now = self._clock.now()
        stands: dict[BankId, _BankHealth] = {}
        names: dict[BankId, str] = {}
        waiting = await tx.sleep_states.find_banks_with_backlog()
        for bank_id in dict.fromkeys((*waiting, *await tx.sleep_states.find_failing_banks())):
            bank = await tx.banks.get(bank_id)
            if bank is not None:
                stands[bank_id], names[bank_id] = await self._measure_bank(tx, bank), bank.name
        spent = await tx.sleep_calls.sum_cost(since=now - DAY)
        today = await tx.sleep_calls.sum_cost(since=datetime.combine(now.date(), time.min, UTC))
        saved = await tx.benefits.sum_saved_tokens(since=now.date())
        red = {bank_id: each.why for bank_id, each in stands.items() if each.why}
        seen = SleepHealthSample(
            banks=len(waiting), episodes=sum(each.episodes for each in stands.values()),
            lag_seconds=max((each.lag_seconds for each in stands.values()), default=0.0),
            failures=max((each.failures for each in stands.values()), default=0), tokens=spent.tokens,
            usd=spent.nanousd / _NANOUSD, spent_today=today.tokens, saved_today=saved,
            red={names[bank_id]: why for bank_id, why in red.items()},
        )  # fmt: skip
        return seen, red
