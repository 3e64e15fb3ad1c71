"""A day of a million agents and a hundred members on one PostgreSQL, on a movable clock; a sample of its minutes runs.

The rows of all agents and routines are in the database. In each minute of the sample, everything that is due happens by
the services of a server: what the schedule finds, messages between agents, decisions, claims, pulses and their ends.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from benchmarks.admission_process import WRITERS
from benchmarks.cluster import server_pid
from benchmarks.cluster_process import ClusterMember
from benchmarks.delay_proxy import NoDelay, delay_proxy
from benchmarks.fleet_report import GROWING, DayResult, Size, build_report
from benchmarks.fleet_rows import add_fleet, agent_of, finish_until
from benchmarks.postgres import NoPostgres, connect, postgres
from benchmarks.processes import cpu_seconds
from benchmarks.report import Report
from circadia.errors import StorageUnavailable
from circadia.ids import MemberId
from circadia.records.member import Member, Role
from circadia.records.retention import RetentionKind
from circadia.records.schedule import Routine
from circadia.server.membership import Membership
from circadia.server.sweeps import PAGE
from circadia.stores.postgres import open_postgres
from circadia.stores.signals.local import LocalSignals
from circadia.stores.sql_store import SqlStore
from circadia.testing.clock import ManualClock
from circadia.wake.worker import AT_ONCE

BEGIN: Final = datetime(2026, 3, 2, tzinfo=UTC)
MINUTES: Final = 1_440
LOOKS: Final = 200
TICK_SECONDS: Final = 0.5
RETENTION_BATCHES: Final = 20
"""Of each kind of rows."""
QUICK: Final = Size(agents=2_000, session_size=50, members=4, minutes=2, report_seconds=0)
_COUNTS: Final = """
    SELECT xact_commit AS transactions, tup_inserted + tup_updated + tup_deleted AS rows,
      (SELECT sum(seq_tup_read) FROM pg_stat_user_tables WHERE relname IN ('agents', 'routines')) AS scanned
    FROM pg_stat_database WHERE datname = current_database()
"""
_LOG: Final = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')"


async def run(folder: Path, size: Size) -> Report:
    """Measure; the folder is not used."""
    try:
        async with postgres() as url, delay_proxy(url) as proxy:
            clock = ManualClock(BEGIN)
            store = await open_postgres(url)
            day = FleetDay(url, store, clock, size)
            try:
                result = await day.measure()
            finally:
                await store.close()
            await proxy.set_round_trip(0)
            counted = await open_postgres(proxy.build_url(url))
            try:
                await proxy.begin_count()
                wakes = await FleetDay(url, counted, clock, size).run_minute(MINUTES - 1)
                result.trips = (await proxy.count()).trips / wakes
            finally:
                await counted.close()
    except (NoPostgres, NoDelay) as error:
        return build_report(size, DayResult(), [f"Nothing is measured: {error}"])
    return build_report(size, result, [])


class FleetDay:
    """The fleet on its clock, driven by eight writers."""

    def __init__(self, url: str, store: SqlStore, clock: ManualClock, size: Size) -> None:
        self._url = url
        self._clock = clock
        self._size = size
        self._store = store
        self._member = ClusterMember(store, LocalSignals(), clock)
        self._result = DayResult()

    async def measure(self) -> DayResult:
        connection = await connect(self._url)
        try:
            self._result.version = await connection.fetchval("SHOW server_version")
            began = time.perf_counter()
            await add_fleet(self._member, connection, self._size.agents, self._size.session_size, BEGIN)
            self._result.load_seconds = time.perf_counter() - began
            sizes = await self._read_sizes(connection)
            await self._run_minutes(connection)
            after = await self._read_sizes(connection)
            self._result.sizes = {
                name: (sizes[name], (after[name] - sizes[name]) / self._result.wakes) for name in after
            }
            await self._time_members()
            self._result.look_ms = await self._time_looks()
            await connection.execute("VACUUM")
            self._result.vacuumed_look_ms = await self._time_looks()
            await self._time_retention(connection)
            await finish_until(connection, BEGIN + timedelta(minutes=MINUTES - 1))
        finally:
            await connection.close()
        return self._result

    async def _run_minutes(self, connection: Any) -> None:
        """Let the minutes of the sample happen, and count what PostgreSQL does for them."""
        await connection.execute("SET enable_seqscan = off")  # what scans whole tables is the services
        before = await self._read_counts(connection)
        planned = 0
        for place in range(self._size.minutes):
            minute = place * MINUTES // self._size.minutes
            planned += await finish_until(connection, BEGIN + timedelta(minutes=minute))
            log, cpu, python = await connection.fetchval(_LOG), self._postgres_cpu(), time.process_time()
            began = time.perf_counter()
            await self.run_minute(minute)
            self._result.seconds += time.perf_counter() - began
            self._result.python_seconds += time.process_time() - python
            self._result.postgres_seconds += self._postgres_cpu() - cpu
            self._result.log_bytes += float(await connection.fetchval(_LOG) - log)
        after = await self._read_counts(connection)
        self._result.transactions = after["transactions"] - before["transactions"]
        self._result.rows = after["rows"] - before["rows"] - planned
        self._result.scanned_rows = after["scanned"] - before["scanned"]

    async def _read_counts(self, connection: Any) -> dict[str, int]:
        await asyncio.sleep(self._size.report_seconds)
        await connection.execute("SELECT pg_stat_clear_snapshot()")
        return {name: int(value or 0) for name, value in (await connection.fetchrow(_COUNTS)).items()}

    async def run_minute(self, minute: int) -> int:
        """Let a minute of the day happen; return the number of its wakes."""
        self._clock.advance(max(0.0, (BEGIN + timedelta(minutes=minute + 1) - self._clock.now()).total_seconds()))
        sequencer = asyncio.create_task(self._member.sequencer.run())
        ticking = asyncio.create_task(self._tick())
        by_schedule = await self._fire_due()
        await self._run_pulses()
        by_message = await self._run_side_by_side([self._send(each) for each in self._choose_messages(minute)])
        await self._run_pulses()
        sequencer.cancel()
        ticking.cancel()
        await asyncio.gather(sequencer, ticking, return_exceptions=True)
        await self._member.sequencer.number_events()
        self._result.by_schedule += by_schedule
        self._result.by_message += by_message
        return by_schedule + by_message

    async def _tick(self) -> None:
        """Move the clock with real time, for what is tried again after a pause because PostgreSQL cut it."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self._clock.advance(TICK_SECONDS)

    async def _run_side_by_side(self, acts: Sequence[Callable[[], Awaitable[None]]]) -> int:
        """Let the writers do the acts; return how many did not fail. PostgreSQL cuts a block that idles for 2 s."""
        left, done = iter(acts), 0

        async def work() -> None:
            nonlocal done
            for act in left:
                try:
                    await act()
                    done += 1
                except StorageUnavailable:
                    self._result.cut += 1

        async with asyncio.TaskGroup() as group:
            for _ in range(WRITERS):
                group.create_task(work())
        return done

    async def _run_pulses(self) -> None:
        """Run all pulses that are pending."""

        async def run_all() -> None:
            while True:
                try:
                    if not await self._member.run_next_pulse():
                        return
                except StorageUnavailable:
                    self._result.cut += 1

        async with asyncio.TaskGroup() as group:  # a failure ends the others too
            for _ in range(WRITERS):
                group.create_task(run_all())

    async def _fire_due(self) -> int:
        """Fire all routines that are due, as the wake worker of the leader does; return their number."""
        fired = 0
        while True:
            began = time.perf_counter()
            async with self._store.begin_read() as tx:
                due = await tx.routines.find_due(self._clock.now(), limit=AT_ONCE)
                await tx.routines.next_due_time(self._clock.now())
            self._result.sweep_ms.append((time.perf_counter() - began) * 1000)
            if not due:
                return fired
            fired += await self._run_side_by_side([self._fire(routine) for routine in due])

    def _fire(self, routine: Routine) -> Callable[[], Awaitable[None]]:
        async def fire() -> None:
            async with self._store.begin_write() as tx:
                await self._member.tier.routines.fire(tx, routine)

        return fire

    def _choose_messages(self, minute: int) -> Iterator[int]:
        """Return the numbers of the agents that send a message in this minute."""
        count = round(self._size.agents * self._size.messages / MINUTES)
        return (number % self._size.agents for number in range(minute * count, (minute + 1) * count))

    def _send(self, number: int) -> Callable[[], Awaitable[None]]:
        """Return what sends a message from an agent to another of its session."""
        size = self._size.session_size
        other = number // size * size + (number + size // 2) % size

        async def send() -> None:
            async with self._store.begin_read() as tx:
                sender, target = await tx.agents.get(agent_of(number)), await tx.agents.get(agent_of(other))
            assert sender is not None
            assert target is not None
            await self._member.decide(sender, target)

        return send

    async def _time_members(self) -> None:
        """Let all members join, and beat once."""
        members = [
            Membership(self._clock, self._store, Member(
                id=MemberId(f"mem_{place}"), role=Role.ALL, version="0", host="host", address="http://host:4114",
                token_check="same", started_at=BEGIN, lease_until=BEGIN,
            ))
            for place in range(self._size.members)
        ]  # fmt: skip
        for member in members:
            await member.join()
        for member in members:
            self._result.beat_ms.append(await _time(member.beat))

    async def _time_looks(self) -> list[float]:
        async def look() -> None:
            async with self._store.begin_single_read() as tx:
                await tx.due_work.find(self._clock.now(), fleet_rule="fleet", launchers=["own"])

        return [await _time(look) for _ in range(LOOKS)]

    async def _time_retention(self, connection: Any) -> None:
        """Delete some of what the sample has left, as when it is too old, in the batches of the server."""
        kinds = (RetentionKind.WAKES, RetentionKind.PULSES, RetentionKind.EVENTS)
        for kind in kinds:
            self._result.left[kind.value] = await connection.fetchval(f"SELECT count(*) FROM {kind.value}")
        before = self._clock.now() + timedelta(seconds=1)
        began = time.perf_counter()
        for kind in kinds * RETENTION_BATCHES:
            async with self._store.begin_write() as tx:
                self._result.retired += (await tx.retention.delete_page(kind, before, limit=PAGE)).deleted
        self._result.retired_seconds = time.perf_counter() - began

    async def _read_sizes(self, connection: Any) -> dict[str, int]:
        names = ("agents", "routines", *GROWING)
        return {name: await connection.fetchval(f"SELECT pg_total_relation_size('{name}')") for name in names}

    def _postgres_cpu(self) -> float:
        return cpu_seconds(server_pid(self._url))


async def _time(act: Callable[[], Awaitable[None]]) -> float:
    began = time.perf_counter()
    await act()
    return (time.perf_counter() - began) * 1000
