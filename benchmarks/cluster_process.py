"""A process of the cluster's benchmark: eight writers that do one kind of work on one PostgreSQL, in a server's blocks.

`python -m benchmarks.cluster_process WORK URL NUMBER SESSIONS WARM_UP SIGNALS` prints `ready`, and for each number of
seconds on stdin what it did in that time, as JSON. WORK is `decisions` or `turns`, SIGNALS `local` or `notify`.
"""

import asyncio
import json
import random
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import cycle
from typing import Any, Final, cast

import uvloop

from benchmarks.admission_process import TEXT, WRITERS
from benchmarks.pulse_agent import NO_LIMITS
from circadia.agents.directory import find_agent, find_own_session, find_session
from circadia.clock import Clock, SystemClock, system_milliseconds
from circadia.ids import AgentId, RandomIds, SessionId, hash_token
from circadia.jobs.event_sequencer import EventSequencer
from circadia.jobs.leased_jobs import LeasedJobs
from circadia.memory.banks import BankService, NewBank
from circadia.memory.episodes import EpisodeService, NewEpisode
from circadia.records.agent import Agent, Cause
from circadia.records.bank import Bank, Trust
from circadia.records.principal import Principal
from circadia.records.pulse import Pulse, PulseStatus
from circadia.records.session import Session, SessionStatus
from circadia.records.wake import Decision, WakeReason
from circadia.server.app import tune_interpreter
from circadia.server.wake_wiring import build_wake_services
from circadia.settings import Settings
from circadia.stores.base import Tx
from circadia.stores.event_log import EventLog
from circadia.stores.locks import agent_key
from circadia.stores.postgres import open_postgres
from circadia.stores.signals.local import LocalSignals
from circadia.stores.signals.postgres import NotifyCarrier
from circadia.stores.signals.remote import RemoteSignals
from circadia.stores.sql_store import SqlStore
from circadia.wake.admission.budgets import fetch_budgets
from circadia.wake.inbox import OutgoingMessage
from circadia.wake.worker import StartablePulses

TARGETS: Final = 16
"""Agents that each writer wakes by turns: so many that the last pulse of each has ended."""
TURN_WORDS: Final = 25
_SYLLABLES: Final = ("ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu", "na", "pe", "ri", "so", "tu", "va")
_OPERATOR: Final = Principal(agent=None)
_SETTINGS: Final = {
    "launchers": {"own": {"kind": "callable", "function": "benchmarks.pulse_agent:quick"}},
    "fleet": {"max_concurrent_pulses": None, "max_wakes_per_day": None},
}
Act = Callable[[], Awaitable[None]]


class CountedSequencer(EventSequencer):
    """Counts how often events were numbered: a block of three trips each time."""

    runs = 0

    async def number_events(self) -> None:
        self.runs += 1
        await super().number_events()


@dataclass(kw_only=True, slots=True)
class WorkDone:
    """What one process did."""

    done: int
    seconds: float
    cpu_ms: float
    p50_ms: float
    numberings: int
    empty_claims: int


class ClusterMember:
    """The part of a server that decides, runs pulses and remembers."""

    def __init__(self, store: SqlStore, signals: LocalSignals | RemoteSignals, clock: Clock | None = None) -> None:
        self.store = store
        self.clock = clock = clock or SystemClock()
        self.ids = ids = RandomIds(system_milliseconds)
        self.sequencer = CountedSequencer(clock, store, signals)
        events = EventLog(clock, signals, self.sequencer.announce)
        self.tier = build_wake_services(Settings.model_validate(_SETTINGS), clock, ids, events)
        self.banks = BankService(clock, ids, events, {})
        self.episodes = EpisodeService(clock, ids, events)
        self.empty_claims = 0
        self._jobs = LeasedJobs[Pulse](
            clock, store, lambda tx: StartablePulses(tx, ["own"]), self._requeue, self._hold, self._fail,
            name="the benchmark", owner=ids.new("exe"), alone=False,
        )  # fmt: skip

    async def decide(self, sender: Agent, target: Agent) -> None:
        """Ask for a wake, as `POST /wakes` does."""
        who = Principal(agent=sender)
        letter = OutgoingMessage(to=target.name, content=TEXT, wake=WakeReason.BLOCKER)
        async with self.store.begin_write() as tx:
            sent = await self.tier.inbox.send(tx, who, await find_own_session(tx, who), letter)
            await fetch_budgets(tx, sent.to, self.clock.now(), sender=sender, place=sent.place)
        assert sent.wake is not None
        assert sent.wake.decision is Decision.ADMITTED, sent.wake

    async def run_pulse(self) -> None:
        """Run a pulse, as the wake worker does: the oldest, whoever asked for it."""
        while not await self.run_next_pulse():
            self.empty_claims += 1

    async def run_next_pulse(self) -> bool:
        """Run the oldest pulse; return whether there was one."""
        async with self._jobs.claiming:
            claimed = await self._jobs.claim(limit=1)
        if not claimed:
            return False
        async with self.store.begin_write(agent_key(claimed[0].agent_id)) as tx:
            leased = await self.tier.pulses.take(tx, claimed[0])
        assert leased is not None
        async with self.store.begin_write() as tx:
            running = await self.tier.pulses.mark_started(tx, leased.pulse)

        async def end(tx: Tx, present: Pulse) -> Pulse:
            return await self.tier.pulses.end(tx, present, PulseStatus.SUCCEEDED)

        await self._jobs.write_result(running, end, keys=leased.keys)
        return True

    async def remember(self, bank: Bank, new: NewEpisode) -> None:
        async with self.store.begin_write() as tx:
            stored = await self.episodes.remember(tx, bank, new)
        assert stored.new

    async def _requeue(self, tx: Tx, pulse: Pulse) -> None:
        await self.tier.pulses.requeue(tx, pulse, "its process died", died=True)

    async def _fail(self, tx: Tx, pulse: Pulse, detail: str) -> Pulse:
        return await self.tier.pulses.end(tx, pulse, PulseStatus.FAILED, detail)

    async def _hold(self, tx: Tx, pulse: Pulse) -> None:
        await self.tier.pulses.hold_agents(tx, pulse.id)


async def prepare(url: str, *, writers: int, sessions: int) -> None:
    """Make the sessions, and for each writer a bank, a sender and its targets."""
    store = await open_postgres(url)
    member = ClusterMember(store, LocalSignals())
    now = member.clock.now()
    homes = [
        Session(id=SessionId(member.ids.new("ses")), name=name, status=SessionStatus.OPEN, created_at=now,
                touched_at=now)
        for name in map(home_name, range(sessions))
    ]  # fmt: skip
    async with store.begin_write() as tx:
        for home in homes:
            await tx.sessions.add(home)
    for writer in range(writers):
        home = homes[writer % sessions]
        async with store.begin_write() as tx:
            await member.banks.create(tx, NewBank(name=f"bank-{writer}"), by="benchmark")
            for name in (f"sender-{writer}", *(f"target-{writer}-{number}" for number in range(TARGETS))):
                agent = Agent(
                    id=AgentId(member.ids.new("agt")), session_id=home.id, session=home.name, name=name,
                    token_hash=hash_token(name), asleep=True, since=now, cause=Cause.OPERATOR, actor="operator",
                    created_at=now,
                )  # fmt: skip
                await tx.agents.add(agent)
                await member.tier.coordinations.patch(tx, agent, {"launcher": "own", **NO_LIMITS}, by="operator")
    for home in homes:  # its first message makes the thread of all messages to its agents
        async with store.begin_write() as tx:
            name = (await tx.agents.find_by_session(home.id))[0].name
            await member.tier.inbox.send(tx, _OPERATOR, home, OutgoingMessage(to=name, content="hello"))
    await member.sequencer.number_events()
    await store.close()


def home_name(number: int) -> str:
    return f"home-{number}"


async def _decisions(member: ClusterMember, number: int, sessions: int) -> Sequence[Act]:
    """Return what each writer does over and over: decide about a wake, and run a pulse."""
    acts: list[Act] = []
    async with member.store.begin_read() as tx:
        for writer in range(number * WRITERS, (number + 1) * WRITERS):
            home = await find_session(tx, _OPERATOR, home_name(writer % sessions))
            sender = await find_agent(tx, home, f"sender-{writer}")
            targets = cycle([await find_agent(tx, home, f"target-{writer}-{each}") for each in range(TARGETS)])

            async def act(sender: Agent = sender, targets: "cycle[Agent]" = targets) -> None:
                await member.decide(sender, next(targets))
                await member.run_pulse()

            acts.append(act)
    return acts


async def _turns(member: ClusterMember, number: int) -> Sequence[Act]:
    """Return what each writer does over and over: remember a turn in a bank of its own."""
    acts: list[Act] = []
    draw = random.SystemRandom()  # no turn may repeat one of an earlier process
    words = [f"{first}{second}" for first in _SYLLABLES for second in _SYLLABLES]
    async with member.store.begin_read() as tx:
        for writer in range(number * WRITERS, (number + 1) * WRITERS):
            bank = await member.banks.get(tx, f"bank-{writer}")

            async def act(bank: Bank = bank) -> None:
                text = " ".join(draw.choices(words, k=TURN_WORDS))
                new = NewEpisode(text=text, speaker="writer", conversation="talk", trust=Trust.PERSON)
                await member.remember(bank, new)

            acts.append(act)
    return acts


async def _repeat(acts: Sequence[Act], seconds: float, least: int) -> tuple[list[float], float]:
    """Let the writers work side by side; return the milliseconds of each act, and the seconds of all."""
    began = time.perf_counter()
    found: list[float] = []

    async def write(act: Act) -> None:
        done = 0
        while done < least or time.perf_counter() - began < seconds:
            start = time.perf_counter()
            await act()
            found.append((time.perf_counter() - start) * 1000)
            done += 1

    async with asyncio.TaskGroup() as group:
        for act in acts:
            group.create_task(write(act))
    return found, time.perf_counter() - began


async def _measure(member: ClusterMember, acts: Sequence[Act], seconds: float) -> WorkDone:
    cpu, numberings, empty = time.process_time(), member.sequencer.runs, member.empty_claims
    found, taken = await _repeat(acts, seconds, 1)
    return WorkDone(
        done=len(found),
        seconds=taken,
        cpu_ms=(time.process_time() - cpu) * 1000,
        p50_ms=statistics.median(found),
        numberings=member.sequencer.runs - numberings,
        empty_claims=member.empty_claims - empty,
    )


async def serve(work: str, url: str, number: int, sessions: int, warm_up: int, signals: str) -> None:
    """Work as often and as long as stdin says."""
    store = await open_postgres(url)
    heard = RemoteSignals(SystemClock(), NotifyCarrier(url, "benchmark")) if signals == "notify" else LocalSignals()
    member = ClusterMember(store, heard)
    background = [asyncio.create_task(member.sequencer.run())]
    if isinstance(heard, RemoteSignals):
        background.append(asyncio.create_task(heard.run()))
        await heard.is_connected.wait()
    acts = await (_decisions(member, number, sessions) if work == "decisions" else _turns(member, number))
    tune_interpreter()  # as the server does
    await _repeat(acts, 0, warm_up)
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps(asdict(await _measure(member, acts, float(line)))), flush=True)
    for task in background:
        task.cancel()
    await asyncio.gather(*background, return_exceptions=True)
    await store.close()


def main(work: str, url: str, number: str, sessions: str, warm_up: str, signals: str) -> None:
    uvloop.run(serve(work, url, int(number), int(sessions), int(warm_up), signals))


if __name__ == "__main__":
    cast("Any", main)(*sys.argv[1:])
