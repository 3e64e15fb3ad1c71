"""Turns under way: those of this process's gateway come by signals, those of others from rows."""

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, cast

from circadia.caches import BoundedDict
from circadia.clock import Clock
from circadia.jobs.leased_jobs import BEAT_SECONDS, LEASE_SECONDS
from circadia.memory.banks import USER
from circadia.records.conversation import OpenTurn
from circadia.sleeptime.triggers.due import LONGEST_REPLY_SECONDS
from circadia.stores.base import Store, Tx

BankBinding = tuple[str, str | None]
"""How agents are bound to a bank: by its name, or by its template and the end user."""

MAX_BANKS: Final = 100_000
"""Banks whose last turn is cached."""


class OpenTurnTracker:
    """Tracks turns; with an `owner`, it shares them with other processes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.owner: str | None = None
        self._beat_at = 0.0
        self.some = asyncio.Event()
        """Set when there is something to share."""
        self._open: dict[int, tuple[BankBinding, datetime]] = {}
        self.reported: dict[int, tuple[BankBinding, datetime]] = {}
        """Turns that rows share."""
        self._last: BoundedDict[BankBinding, datetime] = BoundedDict(MAX_BANKS)

    def on_turn_event(self, key: str, data: Mapping[str, object]) -> BankBinding:
        """Record that a turn began or ended; return how its bank is bound."""
        now = self._clock.now()
        bound = key, str(data["user"]) if USER in key else None
        turn = cast("int", data.get("turn", 0))
        self._last[bound] = now
        if data.get("ended"):
            self._open.pop(turn, None)
        else:
            self._open[turn] = bound, now
        self.some.set()
        return bound

    async def fetch_turn_times(self, tx: Tx, bound: BankBinding) -> tuple[datetime | None, datetime | None]:
        """Return when the bank's last turn began, and when its newest open turn did."""
        under_way = [at for binding, at in self._open.values() if binding == bound]
        if self.owner is not None:
            name, user = bound
            other = await tx.open_turns.find_newest_start(name, user or "", besides=self.owner, now=self._clock.now())
            under_way += [] if other is None else [other]
        newest = max(under_way, default=None)
        return max([*under_way, *([self._last[bound]] if bound in self._last else [])], default=None), newest

    async def write_turns(self, store: Store) -> None:
        """Share the turns that began or ended since the last time. Raises StorageUnavailable: call it again."""
        if self.owner is None:
            return
        self.some.clear()
        now = self._clock.now()
        oldest = now - timedelta(seconds=LONGEST_REPLY_SECONDS)  # the end of an older one was missed
        self._open = {turn: (bound, at) for turn, (bound, at) in self._open.items() if at > oldest}
        shared = dict(self._open)
        new = [
            OpenTurn(
                owner=self.owner, id=turn, bank=bound[0], end_user=bound[1] or "", at=at,
                lease_until=now + timedelta(seconds=LEASE_SECONDS),
            )
            for turn, (bound, at) in shared.items()
            if self.reported.get(turn) != (bound, at)
        ]  # fmt: skip
        ended_turns = self.reported.keys() - shared.keys()
        if new or ended_turns:
            try:
                async with store.begin_write() as tx:
                    await tx.open_turns.add(new)
                    await tx.open_turns.remove(self.owner, ended_turns)
            except BaseException:
                self.some.set()
                raise
        self.reported = shared

    async def renew_leases(self, store: Store) -> None:
        now = self._clock.monotonic()
        if self.owner is None or not self.reported or now < self._beat_at:
            return
        self._beat_at = now + BEAT_SECONDS
        async with store.begin_write() as tx:
            await tx.open_turns.renew_leases(self.owner, self._clock.now() + timedelta(seconds=LEASE_SECONDS))
