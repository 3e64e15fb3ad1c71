"""End reports from external programs, for the runs that wait for them."""

import asyncio

from circadia.ids import PulseId
from circadia.wake.launchers.base import LaunchResult


class PulseReports:
    """Delivers a report to its run, if that waits in this process.

    The pulse's row has ended by then, so a run in another process finds out at its next heartbeat.
    """

    def __init__(self) -> None:
        self._awaited: dict[tuple[PulseId, int], asyncio.Future[LaunchResult]] = {}

    async def wait_for_report(self, pulse_id: PulseId, *, epoch: int) -> LaunchResult:
        """Return the report on this epoch's run; called before the run is requested."""
        future: asyncio.Future[LaunchResult] = asyncio.get_running_loop().create_future()
        self._awaited[pulse_id, epoch] = future
        try:
            return await future
        finally:
            self._awaited.pop((pulse_id, epoch), None)

    def deliver_report(self, pulse_id: PulseId, epoch: int, ended: LaunchResult) -> None:
        """Deliver a report that is already stored."""
        future = self._awaited.get((pulse_id, epoch))
        if future is not None and not future.done():
            future.set_result(ended)
