"""Ends of pulses that programs elsewhere report, to the runs that wait for them."""

import asyncio

from circadia.ids import PulseId
from circadia.wake.launchers.base import LaunchResult


class PulseReports:
    """Hands a report to the run that it is about, if that waits in this process.

    The pulse's row has ended by then: a run in another process finds that at its next heartbeat.
    """

    def __init__(self) -> None:
        self._awaited: dict[tuple[PulseId, int], asyncio.Future[LaunchResult]] = {}

    async def wait_for_report(self, pulse_id: PulseId, *, epoch: int) -> LaunchResult:
        """Wait for the report of this epoch's run and return it; to be called before the run is asked for."""
        place: asyncio.Future[LaunchResult] = asyncio.get_running_loop().create_future()
        self._awaited[pulse_id, epoch] = place
        try:
            return await place
        finally:
            self._awaited.pop((pulse_id, epoch), None)

    def deliver_report(self, pulse_id: PulseId, epoch: int, ended: LaunchResult) -> None:
        """Hand in a report that is durable."""
        place = self._awaited.get((pulse_id, epoch))
        if place is not None and not place.done():
            place.set_result(ended)
