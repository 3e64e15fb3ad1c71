"""Ends of pulses that programs elsewhere report, to whoever waits for them."""

import asyncio

from circadia.ids import PulseId
from circadia.wake.launchers.base import Ended


class PulseReports:
    """Hands a report to the run that it is about; one that comes before the wait counts."""

    def __init__(self) -> None:
        self._awaited: dict[tuple[PulseId, int], asyncio.Future[Ended]] = {}

    async def ended(self, pulse_id: PulseId, *, epoch: int) -> Ended:
        """Wait for the report of this epoch's run and return it."""
        try:
            return await self._place(pulse_id, epoch)
        finally:
            self._awaited.pop((pulse_id, epoch), None)

    def report(self, pulse_id: PulseId, epoch: int, ended: Ended) -> bool:
        """Hand in a report; return whether it is the first of this run."""
        place = self._place(pulse_id, epoch)
        if place.done():
            return False
        place.set_result(ended)
        return True

    def _place(self, pulse_id: PulseId, epoch: int) -> "asyncio.Future[Ended]":
        key = (pulse_id, epoch)
        if key not in self._awaited:
            self._awaited[key] = asyncio.get_running_loop().create_future()
        return self._awaited[key]
