"""The wake tier on a real database with a clock that a test moves, and agents that talk to each other."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from circadia.agents.registry import NewAgent
from circadia.ids import MessageId, PulseId
from circadia.records.agent import Agent, Cause, SleepEvent
from circadia.records.event import Event, EventType
from circadia.records.message import Delivery, DeliveryState
from circadia.records.principal import Principal
from circadia.records.pulse import PULSE_MOVES, Pulse, PulseStatus
from circadia.records.schedule import RoutineSpec
from circadia.records.session import Session
from circadia.records.wake import Decision, Wake, WakeReason
from circadia.server.wake_wiring import build_agent_services, build_wake_services
from circadia.settings import Settings
from circadia.stores.base import Store
from circadia.stores.event_log import EventLog
from circadia.stores.postgres import open_postgres
from circadia.stores.signals.local import LocalSignals
from circadia.stores.sqlite import open_sqlite
from circadia.testing.clock import START, ManualClock
from circadia.wake.coordination import Coordinations
from circadia.wake.inbox import MessageReceipt, OutgoingMessage
from circadia.wake.launchers.base import Launcher
from circadia.wake.pulse_attempts import WorkerContext
from circadia.wake.services import WakeServices
from circadia.wake.worker import WakeWorker
from tests.wake.fake_launcher import FakeLauncher

LAUNCHED: Mapping[str, object] = {"launcher": "fake", "heartbeat_minutes": None}
NO_LIMITS: Mapping[str, object] = {
    "cooldown_seconds": 0, "max_wakes_per_day": None, "max_wakes_per_pair_per_day": None,
    "max_wakes_per_session": None, "max_daily_session_minutes": None, "max_chain_depth": None,
}  # fmt: skip
FREE: Mapping[str, object] = {"wake_guardrails": NO_LIMITS}
"""Guardrails that let everything pass."""
Document = Mapping[str, object]


class SettableClock(ManualClock):
    """A manual clock whose wall can be set, as people and NTP do; its monotonic time goes on."""

    def set(self, seconds: float) -> None:
        """Set the wall clock forward, or back if negative."""
        self._start += timedelta(seconds=seconds)


class CountedIds:
    """Ids in ascending order, whatever the clock does; `run` tells those of several processes apart."""

    def __init__(self, run: str = "") -> None:
        self._run = run
        self._number = 0

    def new(self, prefix: str) -> str:
        """Return the next id."""
        self._number += 1
        return f"{prefix}_{self._number:08}{self._run}"


class Fleet:
    """Agents, and what tests ask of them and of the worker."""

    def __init__(
        self, store: Store, clock: SettableClock, settings: Document, *, ids: CountedIds | None = None
    ) -> None:
        self.store = store
        self.clock = clock
        self.settings = Settings.model_validate(settings)
        self.ids = ids or CountedIds()
        self.signals = LocalSignals()
        self.event_log = EventLog(self.clock, self.signals)
        self.launcher = FakeLauncher()
        self.launchers: dict[str, Launcher] = {"fake": self.launcher}
        self.workers: list[WakeWorker] = []
        self._start()
        self._changed = asyncio.Event()
        for topic in ("pulse", "wake", "delivery", "sleep"):
            self.signals.listen(topic, self._heard)

    def _start(self) -> None:
        """Build what a process has."""
        tier = build_wake_services(self.settings, self.clock, self.ids, self.event_log)
        names = {"resident", "fake", "missing"}
        coordinations = Coordinations(self.clock, self.event_log, tier.routines, tier.pulses, names)
        self.tier: WakeServices = replace(tier, coordinations=coordinations)
        self.registry, self.threads, self.sessions = build_agent_services(
            self.settings, self.clock, self.ids, self.event_log, self.tier
        )
        self.worker = self.new_worker(f"exe_{len(self.workers) + 1}")

    async def stop(self, seconds: float = 0) -> None:
        """Stop the server, with so long for its pulses to end, and start it again."""
        await self.worker.drain(seconds)
        self._start()

    def crash(self) -> None:
        """Start the server again, of which nobody heard any more."""
        self._start()

    def _heard(self, _: str, __: Document) -> None:
        self._changed.set()

    def new_worker(self, owner: str = "exe_1", *, alone: bool = True) -> WakeWorker:
        """Return a worker, as a process has one."""
        context = WorkerContext(
            store=self.store, signals=self.signals, wakes=self.tier, launchers=self.launchers,
            environment=lambda agent, token, pulse_id: {
                "CIRCADIA_TOKEN": token, "AGENT": agent.reference, "P": pulse_id,
            },
        )  # fmt: skip
        self.workers.append(WakeWorker(self.clock, context, owner=owner, alone=alone))
        return self.workers[-1]

    async def home(self) -> Session:
        """Return the session `default`."""
        async with self.store.begin_write() as tx:
            return await self.sessions.ensure_default(tx)

    async def agent(self, name: str, *settings: Document, asleep: bool = True, policy: Document | None = None) -> Agent:
        """Make an agent that sleeps, with these settings of its coordination."""
        home = await self.home()
        events = frozenset({SleepEvent.AGENT_STARTED}) if asleep else frozenset[SleepEvent]()
        async with self.store.begin_write() as tx:
            made, _ = await self.registry.add(
                tx, home, NewAgent(name=name, sleep_events=events, policy=policy or {}), by="operator"
            )  # fmt: skip
            for each in settings:
                made = await self.tier.coordinations.patch(tx, made, each, by="operator")
        return made

    async def claimed(self, pulse_id: PulseId | None, owner: str) -> Pulse:
        """Claim the only pulse that may start, as a worker does."""
        now = self.clock.now()
        async with self.store.begin_write() as tx:
            (pulse,) = await tx.pulses.claim(owner, self.launchers, now=now, until=now, limit=1)
        assert pulse.id == pulse_id
        return pulse

    async def patch(self, agent: Agent, **settings: object) -> None:
        """Change settings of the agent's coordination."""
        async with self.store.begin_write() as tx:
            await self.tier.coordinations.patch(tx, await self.row(agent), settings, by="operator")

    async def row(self, agent: Agent) -> Agent:
        """Return the agent's row as it is now."""
        async with self.store.begin_read() as tx:
            found = await tx.agents.get(agent.id)
        assert found is not None
        return found

    async def routines(self, agent: Agent, *specs: RoutineSpec) -> None:
        """Make these the agent's routines."""
        async with self.store.begin_write() as tx:
            await self.tier.routines.replace(tx, await self.row(agent), specs, by="operator")

    async def send(
        self,
        sender: Agent | None,
        to: Agent,
        content: str = "help",
        *,
        wake: WakeReason | None = WakeReason.BLOCKER,
        pulse: PulseId | None = None,
        **more: object,
    ) -> MessageReceipt:
        """Send a message that asks for a wake, as an agent or as the operator."""
        home = await self.home()
        who = Principal() if sender is None else Principal(agent=await self.row(sender), pulse_id=pulse)
        letter = replace(OutgoingMessage(to=to.reference, content=content, wake=wake), **more)
        async with self.store.begin_write() as tx:
            return await self.tier.inbox.send(tx, who, home, letter)

    async def ask(self, sender: Agent | None, to: Agent, content: str = "help", **more: object) -> Wake:
        """Ask for a wake and return what was decided."""
        sent = await self.send(sender, to, content, **more)  # type: ignore[arg-type]
        assert sent.wake is not None
        return sent.wake

    async def wake(self, wake: Wake) -> Wake:
        """Return the request as it stands."""
        async with self.store.begin_read() as tx:
            found = await tx.wakes.get(wake.id)
        assert found is not None
        return found

    async def wakes(self, decision: Decision | None = None) -> Sequence[Wake]:
        """Return all requests, oldest first."""
        async with self.store.begin_read() as tx:
            return (await tx.wakes.find_all(decision=decision, limit=10_000))[::-1]

    async def pulse(self, pulse_id: PulseId | None) -> Pulse:
        """Return a pulse as it stands."""
        assert pulse_id is not None
        async with self.store.begin_read() as tx:
            found = await tx.pulses.get(pulse_id)
        assert found is not None
        return found

    async def pulses(self) -> Sequence[Pulse]:
        """Return all pulses, oldest first."""
        async with self.store.begin_read() as tx:
            return (await tx.pulses.find_all(limit=10_000))[::-1]

    async def delivery(self, agent: Agent, message: MessageId) -> Delivery:
        """Return where a message stands with its reader."""
        async with self.store.begin_read() as tx:
            found = await tx.deliveries.get(agent.id, message)
        assert found is not None
        return found

    async def inbox(self, agent: Agent, *states: DeliveryState) -> list[str]:
        """Return the contents of the agent's messages in these states, unread ones if none is given."""
        async with self.store.begin_read() as tx:
            found = await tx.deliveries.fetch_inbox(agent.id, states=states or (DeliveryState.UNREAD,), limit=10_000)
        return [each.message.content for each in found]

    async def events(self, kind: EventType) -> list[Event]:
        """Return all events of a kind."""
        async with self.store.begin_read() as tx:
            return list(await tx.events.find_after(0, limit=100_000, types=[kind]))

    async def sleep(self, agent: Agent, asleep: bool = True) -> None:
        """Close the agent's gate, or open it, as the operator."""
        async with self.store.begin_write() as tx:
            await self.tier.sleep.change_sleep(tx, agent.id, asleep=asleep, cause=Cause.OPERATOR, actor="operator")

    async def until(self, pulse_id: PulseId | None, *statuses: PulseStatus) -> Pulse:
        """Return the pulse once it stands there, and who heard of it has; without statuses once it has ended."""
        wanted = statuses or tuple(status for status in PulseStatus if not PULSE_MOVES[status])
        async with asyncio.timeout(60):
            while True:
                self._changed.clear()
                found = await self.pulse(pulse_id)
                if found.status in wanted:
                    async with self.store.begin_write() as tx:  # it returns after those committed before it
                        await tx.events.last_number()
                    return found
                await self._changed.wait()

    async def run(self, pulse_id: PulseId | None, *, seconds: float = 0.0) -> Pulse:
        """Let a pending pulse of the fake launcher start, run for so long, and succeed."""
        await self.worker.step()
        found = await self.until(pulse_id, PulseStatus.RUNNING)
        self.clock.advance(seconds)
        self.launcher.end(found.id)
        return await self.until(pulse_id)

    def at(self, hour: int, minute: int = 0, second: int = 0, *, day: int = 0) -> None:
        """Move the clock to this time of the UTC day that it started on, or of a later one."""
        goal = START.replace(hour=hour, minute=minute, second=second) + timedelta(days=day)
        self.clock.advance((goal - self.clock.now()).total_seconds())


@asynccontextmanager
async def fleet(folder: Path, *, start: datetime = START, settings: Document | None = None) -> AsyncGenerator[Fleet]:
    """Open a fleet on a fresh SQLite file."""
    store = await open_sqlite(folder / "circadia.db")
    made = Fleet(store, SettableClock(start), settings or {})
    try:
        yield made
    finally:
        for worker in made.workers:
            await worker.drain(0)
        await store.close()


@asynccontextmanager
async def postgres_fleet(url: str, run: str) -> AsyncGenerator[Fleet]:
    """Open a fleet on a PostgreSQL database that others may work on too."""
    store = await open_postgres(url)
    try:
        yield Fleet(store, SettableClock(), {}, ids=CountedIds(run))
    finally:
        await store.close()
