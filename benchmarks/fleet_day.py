"""A day of a million agents and a hundred members on one PostgreSQL, on a movable clock; a sample of its minutes runs.

The rows of all agents and routines are in the database. In each minute of the sample, everything that is due happens by
the services of a server: what the schedule finds, messages between agents, decisions, claims, pulses and their ends.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from benchmarks.admission_process import WRITERS
from benchmarks.cluster import server_pid
from benchmarks.cluster_process import ClusterMember
from benchmarks.delay_proxy import NoDelay, delay_proxy
from benchmarks.fleet_rows import add_fleet, agent_of, finish_until
from benchmarks.holds import quantile
from benchmarks.postgres import NoPostgres, connect, postgres
from benchmarks.processes import cpu_seconds
from benchmarks.report import Goal, Report, number
from circadia.ids import MemberId
from circadia.records.member import Member, Role
from circadia.records.retention import RetentionKind
from circadia.records.schedule import Routine
from circadia.server.membership import BEAT_SECONDS, Membership
from circadia.server.sweeps import RETIRED_AT_ONCE
from circadia.stores.postgres import open_postgres
from circadia.stores.signals.local import LocalSignals
from circadia.stores.sql.database import SqlStore
from circadia.testing import ManualClock
from circadia.wake.worker import AT_ONCE

BEGIN: Final = datetime(2026, 3, 2, tzinfo=UTC)
DAY_SECONDS: Final = 86_400
MINUTES: Final = 1_440
LOOKS: Final = 200
LOOK_LIMIT_MS: Final = 10
"""What the look for due work may take at the median, whatever the number of agents."""
CONNECTIONS: Final = {"4 readers, 8 writers": 13, "1 reader, 2 writers": 4}
"""Of a member: its readers, its writers and the connection for signals."""
GROWING: Final = ("events", "wakes", "pulses", "messages", "deliveries")
KEPT_DAYS: Final = 90
"""What `retention` and `limits.keep_handled_days` keep by default."""
CORES: Final = os.cpu_count() or 1
RETENTION_BATCHES: Final = 20
"""Of each kind of rows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How much is measured."""

    agents: int = 1_000_000
    session_size: int = 1_000
    members: int = 100
    messages: float = 1.0
    """That an agent sends in a day, each with a request to wake the other."""
    minutes: int = 12
    """Of the day that run, evenly spread; the others are planned on without running."""
    report_seconds: float = 11.0
    """After which a connection without work has reported to PostgreSQL's statistics."""


QUICK: Final = Size(agents=2_000, session_size=50, members=4, minutes=2, report_seconds=0)


@dataclass(kw_only=True, slots=True)
class DayResult:
    """What the sampled minutes came to."""

    by_schedule: int = 0
    by_message: int = 0
    seconds: float = 0.0
    """Real time of the sampled minutes."""
    python_seconds: float = 0.0
    postgres_seconds: float = 0.0
    transactions: int = 0
    rows: int = 0
    """Inserted, updated and deleted."""
    scanned_rows: int = 0
    """Rows of agents and routines that scans of the whole table read."""
    log_bytes: float = 0.0
    trips: float = 0.0
    """Of one wake, in a further minute behind a proxy that counts."""
    sizes: dict[str, tuple[int, float]] = field(default_factory=dict[str, tuple[int, float]])
    """By table: bytes at the start of the day, and bytes that one wake added."""
    look_ms: list[float] = field(default_factory=list[float])
    sweep_ms: list[float] = field(default_factory=list[float])
    """Of finding the routines that are due, and the next one."""
    beat_ms: list[float] = field(default_factory=list[float])
    left: dict[str, int] = field(default_factory=dict[str, int])
    """Rows of the sample that retention deletes later, by table."""
    retired: int = 0
    """Rows that it deleted in `retired_seconds`."""
    retired_seconds: float = 0.0
    load_seconds: float = 0.0

    @property
    def wakes(self) -> int:
        return self.by_schedule + self.by_message


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
        return _report(size, DayResult(), [f"Nothing is measured: {error}"])
    return _report(size, result, [])


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
        self._clock.advance((BEGIN + timedelta(minutes=minute + 1) - self._clock.now()).total_seconds())
        sequencer = asyncio.create_task(self._member.sequencer.run())
        scheduled = await self._fire_due()
        await _run_side_by_side([self._member.run_pulse] * scheduled)
        messages = [self._send(each) for each in self._choose_messages(minute)]
        await _run_side_by_side(messages)
        await _run_side_by_side([self._member.run_pulse] * len(messages))
        sequencer.cancel()
        await asyncio.gather(sequencer, return_exceptions=True)
        await self._member.sequencer.number_events()
        self._result.by_schedule += scheduled
        self._result.by_message += len(messages)
        return scheduled + len(messages)

    async def _fire_due(self) -> int:
        """Fire all routines that are due, as the wake worker of the leader does; return their number."""
        fired = 0
        while True:
            began = time.perf_counter()
            async with self._store.begin_read() as tx:
                due = await tx.routines.find_due(self._clock.now(), limit=AT_ONCE)
                await tx.routines.next_due_time(self._clock.now())
            self._result.sweep_ms.append((time.perf_counter() - began) * 1000)
            await _run_side_by_side([self._fire(routine) for routine in due])
            fired += len(due)
            if len(due) < AT_ONCE:
                return fired

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
        """Let all members join and beat once, and look for due work."""
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

        async def look() -> None:
            async with self._store.begin_single_read() as tx:
                await tx.due_work.find(self._clock.now(), fleet_rule="fleet")

        for _ in range(LOOKS):
            self._result.look_ms.append(await _time(look))

    async def _time_retention(self, connection: Any) -> None:
        """Delete some of what the sample has left, as when it is too old, in the batches of the server."""
        kinds = (RetentionKind.WAKES, RetentionKind.PULSES, RetentionKind.EVENTS)
        for kind in kinds:
            self._result.left[kind.value] = await connection.fetchval(f"SELECT count(*) FROM {kind.value}")
        before = self._clock.now() + timedelta(seconds=1)
        began = time.perf_counter()
        for kind in kinds * RETENTION_BATCHES:
            async with self._store.begin_write() as tx:
                self._result.retired += await tx.retention.delete_expired(kind, before, limit=RETIRED_AT_ONCE)
        self._result.retired_seconds = time.perf_counter() - began

    async def _read_sizes(self, connection: Any) -> dict[str, int]:
        names = ("agents", "routines", *GROWING)
        return {name: await connection.fetchval(f"SELECT pg_total_relation_size('{name}')") for name in names}

    def _postgres_cpu(self) -> float:
        return cpu_seconds(server_pid(self._url))


async def _run_side_by_side(acts: Sequence[Callable[[], Awaitable[None]]]) -> None:
    left = iter(acts)

    async def work() -> None:
        for act in left:
            await act()

    async with asyncio.TaskGroup() as group:
        for _ in range(WRITERS):
            group.create_task(work())


async def _time(act: Callable[[], Awaitable[None]]) -> float:
    began = time.perf_counter()
    await act()
    return (time.perf_counter() - began) * 1000


def _report(size: Size, day: DayResult, notes: Sequence[str]) -> Report:
    return Report(
        name="fleet_day",
        title=f"A day of {size.agents:,} agents and {size.members} members on one PostgreSQL",
        columns=["", "measured", "in the day"],
        rows=_rows(size, day) if day.wakes else [],
        goals=_goals(size, day),
        notes=[*(_notes(size, day) if day.wakes else ()), *notes],
        figures=asdict(day),
    )


def _needed(size: Size) -> float:
    """Return the wakes a second that the day needs, on average."""
    return size.agents * (1 + size.messages) / DAY_SECONDS


def _rows(size: Size, day: DayResult) -> list[list[str]]:
    needed, wakes = _needed(size), day.wakes
    transactions, rows, log_kb = day.transactions / wakes, day.rows / wakes, day.log_bytes / wakes / 1e3
    python_ms, postgres_ms = (seconds * 1000 / wakes for seconds in (day.python_seconds, day.postgres_seconds))
    kept = needed * DAY_SECONDS * KEPT_DAYS
    deleted, left = day.retired / day.retired_seconds, sum(day.left.values()) / wakes
    return [
        ["wakes by schedule", f"{day.by_schedule:,}", f"{size.agents:,}"],
        ["wakes by message", f"{day.by_message:,}", f"{round(size.agents * size.messages):,}"],
        ["wakes with their pulses a second", number(wakes / day.seconds), f"{number(needed)} on average"],
        ["statements of a wake", number(day.trips), f"{number(day.trips * needed)} a second"],
        ["transactions of a wake", number(transactions), f"{number(transactions * needed)} a second"],
        ["rows that a wake writes", number(rows), f"{number(rows * needed)} a second"],
        ["log of a wake, KB", number(log_kb), f"{number(log_kb * needed * DAY_SECONDS / 1e6)} GB"],
        ["Python's processor time of a wake, ms", number(python_ms), f"{number(python_ms * needed / 1e3)} cores"],
        ["PostgreSQL's, ms", number(postgres_ms), f"{number(postgres_ms * needed / 1e3)} cores"],
        ["look for due work, ms p50", number(quantile(day.look_ms, 0.5)), f"{size.members} a second"],
        ["schedule sweep, ms p50", number(quantile(day.sweep_ms, 0.5)), "1 a second and 100 routines"],
        ["beat of a member, ms p50", number(quantile(day.beat_ms, 0.5)), f"{size.members / BEAT_SECONDS:g} a second"],
        *([f"table {name}, MB", number(day.sizes[name][0] / 1e6), "the same"] for name in ("agents", "routines")),
        *(
            [f"table {name}: bytes of a wake; GB after {KEPT_DAYS} days", number(day.sizes[name][1]),
             number(day.sizes[name][1] * kept / 1e9)]
            for name in GROWING
        ),
        ["rows that retention deletes a second", number(deleted), f"{number(left * needed)} needed"],
        *(
            [f"connections, {name}", str(count), f"{count * size.members:,}"]
            for name, count in CONNECTIONS.items()
        ),
    ]  # fmt: skip


def _goals(size: Size, day: DayResult) -> list[Goal]:
    has = bool(day.wakes)
    return [
        Goal(
            what="wakes with their pulses a second, one process", limit=_needed(size), unit="a second",
            bound="at least", found=day.wakes / day.seconds if has else None,
        ),
        Goal(
            what="look for due work, p50", limit=LOOK_LIMIT_MS, unit="ms",
            found=quantile(day.look_ms, 0.5) if has else None,
        ),
        Goal(
            what="rows of agents and routines that scans of the whole table read, for a wake", limit=1, unit="rows",
            found=day.scanned_rows / day.wakes if has else None,
        ),
    ]  # fmt: skip


def _notes(size: Size, day: DayResult) -> list[str]:
    postgres_ms = day.postgres_seconds * 1000 / day.wakes
    most = CORES * 1000 / postgres_ms
    events = day.left["events"] / day.wakes
    return [
        f"Measured: {size.minutes} minutes of the day, with all that is due in them, one after the other, by one "
        f"process with {WRITERS} writers. The second column is scaled to the day. Between them, one UPDATE plans on.",
        f"All {size.agents:,} agents and their routines are rows, made in {day.load_seconds:,.0f} s. An agent is due "
        f"once a day and sends {size.messages:g} message a day that asks for a wake; both are spread evenly.",
        "A proxy counts the statements in one more minute. All figures of a wake hold the decision, the claim, the "
        "pulse, its end and the numbering of events; they hold neither the agent nor model calls and memory.",
        f"Beats and looks of members are timed one at a time, after {size.members} have joined. They hold no calls.",
        f"Where one PostgreSQL ends: at {postgres_ms:.1f} ms a wake its {CORES} cores do at most {most:,.0f} wakes a "
        f"second, {most * 0.0864:,.1f} million a day, if the disk is not the limit. Here they serve Python too.",
        f"The leader's retention deletes at most {RETIRED_AT_ONCE} rows of a kind a second. A wake leaves {events:.1f} "
        f"events, so retention keeps up with {RETIRED_AT_ONCE / events:,.0f} wakes a second.",
    ]
