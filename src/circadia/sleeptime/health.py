"""How sleep-time work stands over all banks, measured now and then; a bank that turns red is told in the record.

Something is wrong with a bank whose oldest turn has waited for twice as long as its policy says, though nobody has
paused it, and with one whose passes fail in a row (SLEEP-60).
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from typing import Final

from circadia.clock import Clock
from circadia.errors import CircadiaError
from circadia.records.event import Event, EventType
from circadia.sleeptime.tier import Sleeptime, wrong
from circadia.stores.base import Store

_logger = logging.getLogger(__name__)

EVERY_SECONDS: Final = 15.0
CAUSE: Final = "sleep_time"
"""Cause of the alert."""
DAY: Final = timedelta(days=1)
_NANOUSD: Final = 1e9
_TOLD: Final = 20
"""Banks that one alert names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
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


class SleepHealth:
    """Measures beside the requests."""

    def __init__(self, clock: Clock, store: Store, tier: Sleeptime) -> None:
        self._clock = clock
        self._store = store
        self._tier = tier
        self.seen = Seen()
        self._told: frozenset[str] = frozenset()
        """Red banks of which that is in the record."""

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
        """Measure once, and tell of banks that have turned red."""
        self.seen = await self._measured()
        new = {name: why for name, why in self.seen.red.items() if name not in self._told}
        if new:
            told = dict(list(new.items())[:_TOLD])
            data = {"cause": CAUSE, "banks": told, "red": len(self.seen.red)}
            async with self._store.write() as tx:
                await tx.events.add([Event(type=EventType.ALERT, at=self._clock.now(), data=data)])
        self._told = frozenset(self.seen.red)

    async def _measured(self) -> Seen:
        now = self._clock.now()
        episodes = failures = 0
        longest = 0.0
        red: dict[str, str] = {}
        async with self._store.read() as tx:
            waiting = await tx.sleep_states.waiting()
            for bank_id in dict.fromkeys((*waiting, *await tx.sleep_states.failing())):
                bank = await tx.banks.get(bank_id)
                if bank is None:
                    continue
                policy, state = self._tier.policy(bank), await tx.sleep_states.get(bank_id)
                backlog = await tx.sleep_states.backlog(bank_id, state.cursor)
                lag = 0.0 if backlog.oldest_at is None else max(0.0, (now - backlog.oldest_at).total_seconds())
                episodes, failures = episodes + backlog.episodes, max(failures, state.failures)
                if policy.enabled and state.paused_by is None:
                    longest = max(longest, lag)
                if why := wrong(policy, state, lag):
                    red[bank.name] = why
            spent = await tx.sleep_calls.spent(since=now - DAY)
            today = await tx.sleep_calls.spent(since=datetime.combine(now.date(), time.min, UTC))
            saved = await tx.benefits.tokens(since=now.date())
        return Seen(
            banks=len(waiting), episodes=episodes, lag_seconds=longest, failures=failures, tokens=spent.tokens,
            usd=spent.nanousd / _NANOUSD, spent_today=today.tokens, saved_today=saved, red=red,
        )  # fmt: skip
