"""Does what is due: runs pulses, looks again at what was deferred, fires routines, recovers what died.

The rows say what is due; signals say it sooner. A signal that is lost costs a second. A pulse that this process has
taken is its own until its lease runs out; whoever writes with an older epoch is refused, so two processes never both
end it.

    pending --take--> starting --started--> running --end--> succeeded | failed | timed out | cancelled
       ^                  |                    |
       +---- give_back ---+---- lease lost ----+      after four attempts: interrupted
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from circadia.clock import Clock
from circadia.errors import CircadiaError, Conflict, StorageUnavailable
from circadia.ids import AgentId, PulseId
from circadia.records.agent import Agent
from circadia.records.pulse import PULSE_MOVES, Pulse, PulseStatus
from circadia.records.wake import Decision
from circadia.stores.base import Store
from circadia.stores.signals.base import Signals
from circadia.wake.inbox import Inbox
from circadia.wake.launchers.base import Ended, Launch, Launcher, LaunchFailed
from circadia.wake.pulses import LEASE_SECONDS, Pulses, Taken
from circadia.wake.requests import Requests
from circadia.wake.routines import Routines

_logger = logging.getLogger(__name__)

EVERY_SECONDS: Final = 1.0
"""A lost signal costs a second (the design's bound)."""
BEAT_SECONDS: Final = LEASE_SECONDS / 3
AT_ONCE: Final = 100
"""Pulses, and routines, that one look takes up."""
RETRY_SECONDS: Final = 1.0
"""Time until the end of a pulse is written again when the database was away."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerParts:
    """What the worker moves."""

    store: Store
    """The database."""
    signals: Signals
    """Hints."""
    requests: Requests
    """Wake requests."""
    pulses: Pulses
    """Pulses."""
    routines: Routines
    """Schedules."""
    inbox: Inbox
    """Tells senders."""
    launchers: Mapping[str, Launcher]
    """Ways to run agents, by name."""
    environment: Callable[[Agent, str, PulseId], Mapping[str, str]]
    """What a launched agent gets as environment, with this token in this pulse."""


class Worker:
    """One per process. `owner` names it in the rows; `alone` says that no other process works on this database."""

    def __init__(self, clock: Clock, parts: WorkerParts, *, owner: str, alone: bool) -> None:
        self._clock = clock
        self._parts = parts
        self._owner = owner
        self._alone = alone
        self._bell = asyncio.Event()
        self._ended: set[AgentId] = set()
        self._settings_changed = False
        self._running: dict[PulseId, asyncio.Task[None]] = {}
        self._draining = False
        self._beat_at = 0.0
        self._leases: dict[tuple[PulseId, int, datetime | None], float] = {}
        for topic in ("pulse", "wake", "routine", "coordination"):
            parts.signals.listen(topic, self._heard(topic))

    async def run(self) -> None:
        """Work until cancelled; a failing step is told and tried again."""
        if self._alone:
            await self._guarded(self._take_over)
        while True:
            self._bell.clear()
            await self.step()
            await self._rest()

    async def step(self) -> None:
        """Do all that is due now, once."""
        for work in (self._recover, self._time_out, self._reconsider, self._fire, self._start, self._beat):
            await self._guarded(work)

    async def drain(self, seconds: float) -> None:
        """Take up nothing more, let pulses end for so long, then interrupt and put back the rest (WAKE-55)."""
        self._draining = True
        if self._running:
            await asyncio.wait(self._running.values(), timeout=seconds)
        for task in tuple(self._running.values()):
            task.cancel("the server is stopping")
        if self._running:
            await asyncio.gather(*self._running.values(), return_exceptions=True)

    @property
    def running(self) -> int:
        """Return how many pulses this process runs."""
        return len(self._running)

    def _heard(self, topic: str) -> Callable[[str, Mapping[str, object]], None]:
        def heard(key: str, data: Mapping[str, object]) -> None:
            if topic == "pulse":
                if not PULSE_MOVES[PulseStatus(str(data["status"]))]:
                    self._ended.add(AgentId(str(data["agent"])))
                    self._stop_if_running(PulseId(key), str(data["status"]))
            elif topic == "coordination":
                self._ended.add(AgentId(key))
            self._bell.set()

        return heard

    def _stop_if_running(self, pulse_id: PulseId, status: str) -> None:
        task = self._running.get(pulse_id)
        if task is not None and status == PulseStatus.CANCELLED.value:
            task.cancel()

    async def _rest(self) -> None:
        timer = asyncio.ensure_future(self._clock.sleep(EVERY_SECONDS))
        bell = asyncio.ensure_future(self._bell.wait())
        try:
            await asyncio.wait((timer, bell), return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
            bell.cancel()

    async def _guarded(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except CircadiaError as error:
            _logger.warning("the wake worker waits: %s", error)
        except Exception:  # the next look may pass, and nobody else does this work
            _logger.exception("the wake worker failed in a step")

    async def _take_over(self) -> None:
        """Put back what an earlier process of this data folder had taken: it is dead."""
        async with self._parts.store.write() as tx:
            for pulse in await tx.pulses.taken():
                if pulse.owner != self._owner:
                    await self._parts.pulses.give_back(tx, pulse, "the server died")

    async def _recover(self) -> None:
        """Put back what dead processes had taken: those whose leases stood still for the length of a lease.

        By our own monotonic clock, so that a clock that is set kills nobody. Alone there is nobody to look after.
        """
        if self._alone:
            return
        now = self._clock.monotonic()
        async with self._parts.store.read() as tx:
            others = [pulse for pulse in await tx.pulses.taken() if pulse.owner != self._owner]
        seen = {(pulse.id, pulse.epoch, pulse.lease_until): pulse for pulse in others}
        self._leases = {key: self._leases.get(key, now) for key in seen}
        for key, since in self._leases.items():
            if now - since >= LEASE_SECONDS:
                with suppress(Conflict):  # somebody else was first
                    async with self._parts.store.write() as tx:
                        await self._parts.pulses.give_back(tx, seen[key], "its process died")

    async def _time_out(self) -> None:
        async with self._parts.store.read() as tx:
            overdue = await tx.pulses.overdue(self._clock.now())
        for pulse in overdue:
            with suppress(Conflict):
                async with self._parts.store.write() as tx:
                    await self._parts.pulses.time_out(tx, pulse)

    async def _reconsider(self) -> None:
        ended, self._ended = self._ended, set()
        async with self._parts.store.read() as tx:
            due = {*await tx.wakes.due(self._clock.now()), *(ended & set(await tx.wakes.due(None)) if ended else ())}
        for agent_id in due:
            await self._reconsider_agent(agent_id)

    async def _reconsider_agent(self, agent_id: AgentId) -> None:
        if self._draining:
            return
        async with self._parts.store.write() as tx:
            agent = await tx.agents.get(agent_id)
            moved = await self._parts.requests.reconsider(tx, agent, await tx.wakes.deferred(agent_id))
            for wake in moved:
                if wake.decision is Decision.EXPIRED and wake.sender_id is not None:
                    sender = await tx.agents.get(wake.sender_id)
                    if sender is not None and sender.deleted_at is None:
                        text = f"Your wake of {wake.agent} ({wake.reason}) expired. Its message is in the inbox there."
                        await self._parts.inbox.notify(tx, sender, text, root_id=wake.root_id)

    async def _fire(self) -> None:
        if self._draining:
            return
        async with self._parts.store.read() as tx:
            due = await tx.routines.due(self._clock.now(), limit=AT_ONCE)
        for routine in due:
            with suppress(Conflict):
                async with self._parts.store.write() as tx:
                    await self._parts.routines.fire(tx, routine)
        if len(due) == AT_ONCE:
            self._bell.set()

    async def _start(self) -> None:
        if self._draining:
            return
        async with self._parts.store.read() as tx:
            found = await tx.pulses.startable(self._clock.now(), limit=AT_ONCE)
        for pulse in found:
            if pulse.id in self._running:
                continue
            try:
                async with self._parts.store.write() as tx:
                    taken = await self._parts.pulses.take(tx, pulse, self._owner)
            except Conflict:
                continue  # another process was first
            if taken is not None:
                task = asyncio.create_task(self._run(taken))
                self._running[pulse.id] = task
                task.add_done_callback(lambda _, pulse_id=pulse.id: self._running.pop(pulse_id, None))
        if len(found) == AT_ONCE:
            self._bell.set()

    async def _beat(self) -> None:
        """Say that this process lives, and stop what has been taken away from it."""
        now = self._clock.monotonic()
        if not self._running or now < self._beat_at:
            return
        self._beat_at = now + BEAT_SECONDS
        async with self._parts.store.write() as tx:
            await tx.pulses.beat(self._owner, self._clock.now() + timedelta(seconds=LEASE_SECONDS))
        async with self._parts.store.read() as tx:
            own = {pulse.id for pulse in await tx.pulses.taken() if pulse.owner == self._owner}
        for pulse_id in self._running.keys() - own:
            task = self._running[pulse_id]
            if not task.done():
                task.cancel()

    async def _run(self, taken: Taken) -> None:
        pulse = taken.pulse
        launcher = self._parts.launchers.get(pulse.launcher)
        if launcher is None:
            await self._end(pulse, PulseStatus.FAILED, f"there is no launcher {pulse.launcher!r} in the configuration")
            return
        run = _Run(self, taken, launcher)
        try:
            status, detail = await run.outcome()
        except asyncio.CancelledError:
            await asyncio.shield(self._interrupted(run.pulse))
            raise
        await asyncio.shield(self._end(run.pulse, status, detail))

    async def _interrupted(self, pulse: Pulse) -> None:
        """Put the pulse back, unless it was ended or taken away, which is why it was interrupted."""
        try:
            async with self._parts.store.write() as tx:
                present = await tx.pulses.get(pulse.id)
                if present is not None and present.epoch == pulse.epoch and PULSE_MOVES[present.status]:
                    await self._parts.pulses.give_back(tx, present, "the server stopped")
        except CircadiaError as error:
            _logger.warning("pulse %s is recovered when its lease has run out: %s", pulse.id, error)

    async def _end(self, pulse: Pulse, status: PulseStatus, detail: str) -> None:
        while True:
            try:
                async with self._parts.store.write() as tx:
                    await self._parts.pulses.end(tx, pulse, status, detail)
            except Conflict as error:
                _logger.warning("the end of pulse %s does not count: %s", pulse.id, error)
            except StorageUnavailable as error:
                _logger.warning("pulse %s has ended, and the database is away: %s", pulse.id, error)
                await self._clock.sleep(RETRY_SECONDS)
                continue
            return

    async def note_started(self, pulse: Pulse) -> Pulse:
        """Write that the pulse's agent runs; return its row."""
        async with self._parts.store.write() as tx:
            return await self._parts.pulses.started(tx, pulse)

    def launch_of(self, taken: Taken, timeout_seconds: float) -> Launch:
        """Return what the launcher gets."""
        pulse = taken.pulse
        return Launch(
            pulse_id=pulse.id,
            attempt=pulse.attempt,
            epoch=pulse.epoch,
            agent=pulse.agent,
            prompt=taken.prompt,
            token=taken.token,
            environment=self._parts.environment(taken.agent, taken.token, pulse.id),
            timeout_seconds=timeout_seconds,
        )


class _Run:
    """One attempt, from its launcher's point of view."""

    def __init__(self, worker: Worker, taken: Taken, launcher: Launcher) -> None:
        self._worker = worker
        self._taken = taken
        self._launcher = launcher
        self.pulse = taken.pulse

    async def outcome(self) -> tuple[PulseStatus, str]:
        """Run the agent and return how it ended."""
        limit = self.pulse.timeout_seconds
        try:
            if self.pulse.attempt > 1:
                await self._launcher.clear(self.pulse.id, below_epoch=self.pulse.epoch)
            async with asyncio.timeout(limit):
                ended = await self._launcher.run(
                    self._worker.launch_of(self._taken, limit or float("inf")), self._started
                )
        except LaunchFailed as error:
            return PulseStatus.FAILED, f"could not be started: {error}"
        except TimeoutError:
            return PulseStatus.TIMED_OUT, f"over {limit:g} s"
        except Conflict as error:  # it was cancelled or taken away before it ran
            return PulseStatus.CANCELLED, error.message
        except Exception as error:
            _logger.exception("launcher %r failed", self._launcher.kind)
            return PulseStatus.FAILED, f"its launcher failed ({type(error).__name__}); the server's log says why"
        return _status(ended), ended.detail

    async def _started(self) -> None:
        self.pulse = await self._worker.note_started(self.pulse)


def _status(ended: Ended) -> PulseStatus:
    return PulseStatus.SUCCEEDED if ended.succeeded else PulseStatus.FAILED
