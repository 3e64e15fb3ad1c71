"""The pulses that a process can start: those of its own launchers (WAKE-50)."""

from collections.abc import Collection, Sequence
from datetime import datetime

from circadia.ids import PulseId
from circadia.records.pulse import Pulse
from circadia.stores.base import Tx


class StartablePulses:
    """The rows of pulses as `LeasedJobs` sees them. A pulse of another launcher stays for a process that has it."""

    def __init__(self, tx: Tx, launchers: Collection[str]) -> None:
        self._rows = tx.pulses
        self._launchers = launchers

    async def get(self, pulse_id: PulseId) -> Pulse | None:
        return await self._rows.get(pulse_id)

    async def has_startable(self, now: datetime) -> bool:
        return await self._rows.has_startable(now, self._launchers)

    async def claim(
        self, owner: str, *, now: datetime, until: datetime, limit: int, since: datetime | None = None
    ) -> Sequence[Pulse]:
        return await self._rows.claim(owner, self._launchers, now=now, until=until, limit=limit, since=since)

    async def find_claimed(self) -> Sequence[Pulse]:
        return await self._rows.find_claimed()

    async def renew_leases(self, owner: str, until: datetime) -> None:
        await self._rows.renew_leases(owner, until)
