"""Measures sleep-time work over all banks, and records an alert for each bank in trouble.

Servers share their alerts through the database, so each condition has one alert and one all-clear, whichever server
sees it first.

A bank is in trouble if its oldest turn has waited for twice the policy's limit or missed an hour of a schedule while
the bank is not paused, or if its passes fail in a row (SLEEP-60).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from typing import Final

from circadia.clock import Clock
from circadia.ids import BankId
from circadia.jobs.loops import run_guarded
from circadia.records.bank import Bank
from circadia.records.event import EventType, SleepTimeAlert, SleepTimeOverAlert
from circadia.sleeptime.engine.services import SleeptimeService
from circadia.stores.base import Store, Tx
from circadia.stores.locks import ALERTS_KEY, bank_key

EVERY_SECONDS: Final = 15.0
CAUSE: Final = "sleep_time"
OVER: Final = "sleep_time_over"
"""Cause of the all-clear."""
RED_BANK: Final = "red_bank"
"""Kind of the stored alerts, by bank."""
MIN_ALERT_AGE: Final = timedelta(minutes=1)
"""Minimum time from an alert to its all-clear: server clocks differ."""
DAY: Final = timedelta(days=1)
_NANOUSD: Final = 1e9
_MAX_BANKS: Final = 20
"""Banks that one alert names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SleepHealthSample:
    banks: int = 0
    """Banks with a backlog or leftovers."""
    episodes: int = 0
    """Episodes behind their cursors."""
    lag_seconds: float = 0.0
    """Wait of the oldest turn in banks whose passes are on and not paused."""
    failures: int = 0
    """Failed passes in a row, of the worst bank."""
    tokens: int = 0
    """Tokens that passes used within a day."""
    usd: float = 0.0
    """Cost of passes within a day."""
    spent_today: int = 0
    """Tokens that passes used since midnight (UTC)."""
    saved_today: int = 0
    """Tokens that hot calls saved since midnight by what passes made."""
    red: Mapping[str, str] = field(default_factory=dict[str, str])
    """The problem of each bank in trouble, by bank name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _BankHealth:
    episodes: int
    failures: int
    lag_seconds: float
    """Wait of its oldest turn; 0 if passes are off or paused."""
    why: str
    """The problem; empty without one."""


class SleepHealth:
    def __init__(self, clock: Clock, store: Store, sleeptime: SleeptimeService) -> None:
        self._clock = clock
        self._store = store
        self._sleeptime = sleeptime
        self.seen = SleepHealthSample()

    async def run(self) -> None:
        while True:
            await run_guarded("the measurement of sleep-time work", self.step)
            await self._clock.sleep(EVERY_SECONDS)

    async def step(self) -> None:
        """Measure once, and alert on banks that have got into trouble or out of it."""
        async with self._store.begin_read() as tx:
            self.seen, red = await self._measure_all(tx)
            alerted = await tx.alerts.find_alert_times(RED_BANK)
        changed = [BankId(bank_id) for bank_id in {*red} ^ {*alerted}]
        if any(self._may_alert(alerted.get(bank_id)) for bank_id in changed):
            async with self._store.begin_write() as tx:
                await self._write_alerts(tx, changed)

    def _may_alert(self, alerted_at: datetime | None) -> bool:
        return alerted_at is None or abs(self._clock.now() - alerted_at) >= MIN_ALERT_AGE

    async def _write_alerts(self, tx: Tx, banks: Sequence[BankId]) -> None:
        """Record what has changed for these banks, unless another server was first."""
        await tx.hold(ALERTS_KEY, *map(bank_key, banks))
        alerted, now = await tx.alerts.find_alert_times(RED_BANK), self._clock.now()
        new: dict[str, str] = {}
        over: list[str] = []
        for bank_id in banks:
            bank = await tx.banks.get(bank_id)
            why = "" if bank is None else (await self._measure_bank(tx, bank)).why
            if bank is not None and why and bank_id not in alerted:
                new[bank.name] = why
                await tx.alerts.record_alert(RED_BANK, bank_id, now)
            elif not why and bank_id in alerted and self._may_alert(alerted[bank_id]):
                over += [] if bank is None else [bank.name]
                await tx.alerts.clear_alert(RED_BANK, bank_id)
        red = len(self.seen.red)
        alerts = [
            *([SleepTimeAlert(cause=CAUSE, banks=dict(list(new.items())[:_MAX_BANKS]), red=red)] if new else []),
            *([SleepTimeOverAlert(cause=OVER, banks=over[:_MAX_BANKS], red=red)] if over else []),
        ]
        for alert in alerts:
            await self._sleeptime.events.record(tx, EventType.ALERT, alert)

    async def _measure_bank(self, tx: Tx, bank: Bank) -> _BankHealth:
        policy, state = self._sleeptime.policy(bank), await tx.sleep_states.get(bank.id)
        backlog = await tx.sleep_states.fetch_backlog(bank.id, state.cursor)
        oldest, hours = backlog.oldest_at, await self._sleeptime.load_hours(tx, bank)
        lag = 0.0 if oldest is None else max(0.0, (self._clock.now() - oldest).total_seconds())
        return _BankHealth(
            episodes=backlog.episodes,
            failures=state.failures,
            why=self._sleeptime.describe_problem(bank, state, backlog, hours),
            lag_seconds=lag if policy.enabled and state.paused_by is None else 0.0,
        )

    async def _measure_all(self, tx: Tx) -> tuple[SleepHealthSample, Mapping[BankId, str]]:
        now = self._clock.now()
        healths: dict[BankId, _BankHealth] = {}
        names: dict[BankId, str] = {}
        waiting = await tx.sleep_states.find_banks_with_backlog()
        for bank_id in dict.fromkeys((*waiting, *await tx.sleep_states.find_failing_banks())):
            bank = await tx.banks.get(bank_id)
            if bank is not None:
                healths[bank_id], names[bank_id] = await self._measure_bank(tx, bank), bank.name
        spent = await tx.sleep_calls.sum_cost(since=now - DAY)
        today = await tx.sleep_calls.sum_cost(since=datetime.combine(now.date(), time.min, UTC))
        saved = await tx.benefits.sum_saved_tokens(since=now.date())
        red = {bank_id: health.why for bank_id, health in healths.items() if health.why}
        sample = SleepHealthSample(
            banks=len(waiting), episodes=sum(health.episodes for health in healths.values()),
            lag_seconds=max((health.lag_seconds for health in healths.values()), default=0.0),
            failures=max((health.failures for health in healths.values()), default=0), tokens=spent.tokens,
            usd=spent.nanousd / _NANOUSD, spent_today=today.tokens, saved_today=saved,
            red={names[bank_id]: why for bank_id, why in red.items()},
        )  # fmt: skip
        return sample, red
