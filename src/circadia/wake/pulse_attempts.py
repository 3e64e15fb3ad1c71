"""One attempt at a pulse, from the launcher's start to its result (WAKE-53, WAKE-54)."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from circadia.errors import Conflict, StorageUnavailable
from circadia.ids import PulseId
from circadia.output_tail import redact_tail
from circadia.records.agent import Agent
from circadia.records.pulse import PulseStatus
from circadia.stores.base import Store
from circadia.stores.signals.base import Signals
from circadia.wake.launchers.base import Launch, Launcher, LaunchFailed
from circadia.wake.pulse_service import LeasedPulse
from circadia.wake.services import WakeServices

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerContext:
    store: Store
    signals: Signals
    wakes: WakeServices
    launchers: Mapping[str, Launcher]
    environment: Callable[[Agent, str, PulseId], Mapping[str, str]]
    """Builds the environment of a launched agent from its token and pulse."""


class Attempt:
    """One attempt at a taken pulse; `pulse` is its row as this process last wrote it."""

    def __init__(self, context: WorkerContext, leased: LeasedPulse, launcher: Launcher) -> None:
        self._context = context
        self._leased = leased
        self._launcher = launcher
        self.pulse = leased.pulse

    async def run(self) -> tuple[PulseStatus, str]:
        """Run the agent; return status and redacted detail. Raises StorageUnavailable if its start was not written."""
        status, detail = await self._run_launcher()
        return status, redact_tail(detail, (self._leased.token,))

    async def _run_launcher(self) -> tuple[PulseStatus, str]:
        limit = self._leased.timeout_seconds
        bound = asyncio.timeout(limit)
        try:
            if self.pulse.epoch > 1:  # an earlier attempt began
                await self._launcher.clear(self.pulse.id, below_epoch=self.pulse.epoch)
            async with bound:
                ended = await self._launcher.run(self._build_launch(limit or float("inf")), self._mark_started)
        except LaunchFailed as error:
            return PulseStatus.FAILED, f"could not be started: {error}"
        except Conflict as error:  # it was cancelled or taken away before it ran
            return PulseStatus.CANCELLED, error.message
        except StorageUnavailable:
            raise
        except Exception as error:
            if limit is not None and bound.expired():
                return PulseStatus.TIMED_OUT, f"over {limit:g} s"
            _logger.exception("launcher %r failed", self._launcher.kind)
            return PulseStatus.FAILED, f"its launcher failed ({type(error).__name__}); the server's log says why"
        return ended.status, ended.detail

    async def _mark_started(self) -> None:
        async with self._context.store.begin_write() as tx:
            started = await self._context.wakes.pulses.mark_started(tx, self.pulse)
        self.pulse = started

    def _build_launch(self, timeout_seconds: float) -> Launch:
        pulse = self._leased.pulse
        return Launch(
            pulse_id=pulse.id,
            attempt=pulse.attempt,
            epoch=pulse.epoch,
            agent=pulse.agent,
            prompt=self._leased.prompt,
            token=self._leased.token,
            environment=self._context.environment(self._leased.agent, self._leased.token, pulse.id),
            timeout_seconds=timeout_seconds,
        )
