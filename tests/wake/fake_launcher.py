"""A launcher that starts nothing; it records launches and ends them as a test says."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from circadia.ids import PulseId
from circadia.wake.launchers.base import Launch, LaunchFailed, LaunchResult, prompt_bytes

SUCCEEDED = LaunchResult(succeeded=True)


class FakeLauncher:
    """A fake `circadia.wake.launchers.base.Launcher`.

    A launch ends at once with the next item of `script` (`LaunchResult`, or `LaunchFailed` to raise); without one it
    runs until `end`, `clear` or a cancellation.
    """

    kind = "fake"

    def __init__(self) -> None:
        self.launches: list[Launch] = []
        """All launches, including failed ones, in order."""
        self.cleared: list[tuple[PulseId, int]] = []
        """The pulse and epoch of each call of `clear`."""
        self.cancelled: list[Launch] = []
        self.script: deque[LaunchResult | LaunchFailed] = deque()
        """Results of the next launches."""
        self._running: dict[tuple[PulseId, int], asyncio.Future[LaunchResult]] = {}
        self._changed = asyncio.Event()

    @property
    def running(self) -> list[PulseId]:
        return [pulse_id for pulse_id, _ in self._running]

    async def run(self, launch: Launch, started: Callable[[], Awaitable[None]]) -> LaunchResult:
        prompt_bytes(launch)
        self.launches.append(launch)
        scripted = self.script.popleft() if self.script else None
        if isinstance(scripted, LaunchFailed):
            self._notify()
            raise scripted
        key = (launch.pulse_id, launch.epoch)
        end: asyncio.Future[LaunchResult] = asyncio.get_running_loop().create_future()
        self._running[key] = end
        try:
            self._notify()
            await started()
            return scripted or await end
        except asyncio.CancelledError:
            self.cancelled.append(launch)
            raise
        finally:
            del self._running[key]
            self._notify()

    async def clear(self, pulse_id: PulseId, *, below_epoch: int) -> None:
        """Record the call, and end the pulse's runs of earlier epochs."""
        self.cleared.append((pulse_id, below_epoch))
        for (key, epoch), end in self._running.items():
            if key == pulse_id and epoch < below_epoch and not end.done():
                end.set_result(LaunchResult(succeeded=False, detail="cleared"))

    def end(self, pulse_id: PulseId, ended: LaunchResult = SUCCEEDED) -> None:
        """End the pulse's latest run. Raises KeyError: the pulse is not running."""
        epoch = max((epoch for key, epoch in self._running if key == pulse_id), default=None)
        if epoch is None:
            raise KeyError(pulse_id)
        end = self._running[pulse_id, epoch]
        if not end.done():
            end.set_result(ended)

    async def wait_for_launches(self, number: int) -> None:
        while len(self.launches) < number:
            self._changed.clear()
            await self._changed.wait()

    async def wait_for_running(self, number: int) -> None:
        """Return once exactly `number` launches run."""
        while len(self._running) != number:
            self._changed.clear()
            await self._changed.wait()

    def _notify(self) -> None:
        self._changed.set()
