"""A process that asks for wakes on a database, as a server does it: times its decisions, or takes part in a storm.

`python -m benchmarks.admission_process times WHERE DECISIONS ROUNDS` and `… storm WHERE NUMBER ASKS` print JSON; WHERE
is a path of SQLite or a URL of PostgreSQL.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import uvloop

from benchmarks.disk import commit_milliseconds
from circadia.agents.directory import find_agent
from circadia.clock import SystemClock
from circadia.ids import AgentId, RandomIds, SessionId, hash_token
from circadia.records.agent import Agent, Cause
from circadia.records.principal import Principal
from circadia.records.pulse import PulseStatus
from circadia.records.session import Session, SessionStatus
from circadia.records.wake import Decision, Wake, WakeReason
from circadia.server.app import tune_interpreter
from circadia.server.wake_wiring import build_wake_services
from circadia.settings import Settings
from circadia.stores.base import Tx
from circadia.stores.event_log import EventLog
from circadia.stores.locks import agent_key
from circadia.stores.postgres import open_postgres
from circadia.stores.signals.local import LocalSignals
from circadia.stores.sql_store import SqlStore
from circadia.stores.sqlite import open_sqlite
from circadia.wake.inbox import OutgoingMessage

WRITERS: Final = 8
TARGETS: Final = 20
"""Agents that a storm is for."""
SENDERS: Final = 40
LEASE: Final = timedelta(seconds=60)
"""Longer than a claimed pulse waits for its agent's key."""
TEXT: Final = "The build of the main branch fails since 14:02; please look at the log of step 3. " * 3
_FREE: Final = {
    "cooldown_seconds": 0, "max_wakes_per_day": None, "max_wakes_per_pair_per_day": None,
    "max_wakes_per_session": None, "max_daily_session_minutes": None,
}  # fmt: skip
_SETTINGS: Final = {
    "launchers": {"own": {"kind": "callable", "function": "benchmarks.pulse_agent:quick"}},
    "fleet": {"max_concurrent_pulses": None, "max_wakes_per_day": None},
}


@dataclass(frozen=True, kw_only=True, slots=True)
class AdmissionServices:
    """What asks."""

    store: SqlStore
    home: Session
    ask: Callable[[Tx, Agent, Agent], Awaitable[Wake]]
    run: Callable[[str], Awaitable[bool]]
    add: Callable[[Tx, str, dict[str, Any]], Awaitable[Agent]]


async def ready(where: str) -> AdmissionServices:
    """Open the database and build the wake tier on it, with the session `default`."""
    store = await (open_postgres(where) if where.startswith("postgresql") else open_sqlite(Path(where)))
    clock = SystemClock()
    ids = RandomIds(lambda: int(clock.now().timestamp() * 1000))
    tier = build_wake_services(Settings.model_validate(_SETTINGS), clock, ids, EventLog(clock, LocalSignals()))
    now = clock.now()
    async with store.begin_write() as tx:
        home = await tx.sessions.get_by_name("default")
        if home is None:
            home = Session(
                id=SessionId(ids.new("ses")), name="default", status=SessionStatus.OPEN, created_at=now, touched_at=now
            )
            await tx.sessions.add(home)

    async def ask(tx: Tx, sender: Agent, target: Agent) -> Wake:
        letter = OutgoingMessage(to=target.name, content=TEXT, wake=WakeReason.BLOCKER)
        sent = await tier.inbox.send(tx, Principal(agent=sender), home, letter)
        assert sent.wake is not None
        return sent.wake

    async def run(owner: str) -> bool:
        """Let a pending pulse run at once, as a worker does: claim it, then take it under its agent's key.

        Return whether there was one.
        """
        now = clock.now()
        async with store.begin_write() as tx:
            claimed = await tx.pulses.claim(owner, ["own"], now=now, until=now + LEASE, limit=1)
        for pulse in claimed:
            async with store.begin_write(agent_key(pulse.agent_id)) as tx:
                taken = await tier.pulses.take(tx, pulse)
                assert taken is not None
                await tier.pulses.end(tx, await tier.pulses.mark_started(tx, taken.pulse), PulseStatus.SUCCEEDED)
        return bool(claimed)

    async def add(tx: Tx, name: str, guardrails: dict[str, Any]) -> Agent:
        agent = Agent(
            id=AgentId(ids.new("agt")), session_id=home.id, session="default", name=name, token_hash=hash_token(name),
            asleep=True, since=now, cause=Cause.OPERATOR, actor="operator", created_at=now,
        )  # fmt: skip
        await tx.agents.add(agent)
        changes = {"launcher": "own", "wake_guardrails": {**_FREE, **guardrails}}
        return await tier.coordinations.patch(tx, agent, changes, by="operator")

    return AdmissionServices(store=store, home=home, ask=ask, run=run, add=add)


async def times(where: str, decisions: int, rounds: int) -> list[dict[str, Any]]:
    """Return for each round the rate of bare commits, and the times of decisions by eight writers at once."""
    fleet = await ready(where)
    tune_interpreter()  # as the server does
    async with fleet.store.begin_write() as tx:
        senders = [await fleet.add(tx, f"sender-{number}", {}) for number in range(WRITERS)]
    found: list[dict[str, Any]] = []
    for number_of_round in range(rounds + 1):
        async with fleet.store.begin_write() as tx:  # each is woken once, so that every wake is admitted
            targets = [await fleet.add(tx, f"target-{number_of_round}-{n}", {}) for n in range(decisions)]
        bare = await commit_milliseconds(where, decisions)
        left = iter(targets)
        taken: list[float] = []

        async def writer(sender: Agent, left: Any = left, taken: list[float] = taken) -> None:
            for target in left:
                began = time.perf_counter()
                async with fleet.store.begin_write() as tx:
                    wake = await fleet.ask(tx, sender, target)
                taken.append(time.perf_counter() - began)
                assert wake.decision is Decision.ADMITTED

        cpu, began = time.process_time(), time.perf_counter()
        await asyncio.gather(*(writer(sender) for sender in senders))
        seconds = time.perf_counter() - began
        if number_of_round:
            found.append({
                "rate": decisions / seconds, "ms": sorted(each * 1000 for each in taken), "bare_ms": sorted(bare),
                "cpu_ms": (time.process_time() - cpu) * 1000 / decisions,
            })  # fmt: skip
    await fleet.store.close()
    return found


async def prepare_storm(where: str, daily: int) -> None:
    """Make the agents of a storm, that each may be woken so often a day."""
    fleet = await ready(where)
    async with fleet.store.begin_write() as tx:
        for number in range(SENDERS):
            await fleet.add(tx, f"stormer-{number}", {})
        for number in range(TARGETS):
            await fleet.add(tx, f"target-{number}", {"max_wakes_per_day": daily})
    await fleet.store.close()


async def storm(where: str, number: int, asks: int) -> dict[str, int]:
    """Once told to, ask for so many wakes, eight at once; what is admitted runs at once. Return what was decided."""
    fleet = await ready(where)
    async with fleet.store.begin_read() as tx:
        senders = [await find_agent(tx, fleet.home, f"stormer-{each}") for each in range(SENDERS)]
        targets = [await find_agent(tx, fleet.home, f"target-{each}") for each in range(TARGETS)]
    print("ready", flush=True)  # who opens a database of SQLite amid a storm may wait for longer than it bears
    await asyncio.to_thread(sys.stdin.readline)
    left = iter(range(asks))
    found: dict[str, int] = dict.fromkeys((each.value for each in Decision), 0)

    async def writer(at: int) -> None:
        for each in left:
            sender, target = senders[(each + number) % SENDERS], targets[each % TARGETS]
            async with fleet.store.begin_write() as tx:
                wake = await fleet.ask(tx, sender, target)
            found[wake.decision.value] += 1
            while wake.decision is Decision.ADMITTED and await fleet.run(f"process {number}, writer {at}"):
                pass

    await asyncio.gather(*map(writer, range(WRITERS)))
    await fleet.store.close()
    return found


async def charged(where: str) -> Sequence[int]:
    """Return how many wakes count against each target's day."""
    fleet = await ready(where)
    async with fleet.store.begin_read() as tx:
        targets = [await find_agent(tx, fleet.home, f"target-{each}") for each in range(TARGETS)]
        since = SystemClock().now().replace(hour=0, minute=0, second=0, microsecond=0)
        counts = [sum((await tx.wakes.count_by_sender(target.id, since)).values()) for target in targets]
    await fleet.store.close()
    return counts


def main(what: str, where: str, *numbers: str) -> None:
    """Run one of them and print what it returns."""
    first, second = map(int, numbers)
    print(json.dumps(uvloop.run(times(where, first, second) if what == "times" else storm(where, first, second))))


if __name__ == "__main__":
    main(*sys.argv[1:])
