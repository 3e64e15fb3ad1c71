"""The SQL store, shared by both dialects; they differ in their connections only."""

import asyncio
import logging
import math
import os
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeVar, cast

from sqlalchemy import Column, Connection, Integer, LargeBinary, Table, bindparam, text, update

from circadia.errors import StorageUnavailable
from circadia.ids import SessionId
from circadia.stores.access import AccessTokens
from circadia.stores.base import (
    Agents,
    Alerts,
    Answers,
    Banks,
    Benefits,
    Blocks,
    Calls,
    Conversations,
    Cursors,
    Deliveries,
    DueChecks,
    DueWorks,
    Episodes,
    Events,
    HoldPlaceCounts,
    Members,
    Messages,
    Notes,
    OpenTurns,
    Passes,
    Provenances,
    ProviderIds,
    Pulses,
    Retention,
    Routines,
    Sessions,
    SleepCalls,
    SleepStates,
    Store,
    Threads,
    Tx,
    Wakes,
)
from circadia.stores.dream_jobs import DreamJobs
from circadia.stores.locks import LockKey
from circadia.stores.overview import Overviews
from circadia.stores.sql.access_tokens import SqlAccessTokens
from circadia.stores.sql.agents import SqlAgents
from circadia.stores.sql.alerts import SqlAlerts
from circadia.stores.sql.answers import SqlAnswers
from circadia.stores.sql.banks import SqlBanks
from circadia.stores.sql.benefits import SqlBenefits
from circadia.stores.sql.blocks import SqlBlocks
from circadia.stores.sql.calls import SqlCalls
from circadia.stores.sql.connection_facts import ConnectionFacts
from circadia.stores.sql.conversations import SqlConversations
from circadia.stores.sql.cursors import SqlCursors
from circadia.stores.sql.deliveries import SqlDeliveries
from circadia.stores.sql.dream_jobs import SqlDreamJobs
from circadia.stores.sql.driver_errors import is_damage
from circadia.stores.sql.due_checks import SqlDueChecks
from circadia.stores.sql.due_work import SqlDueWork
from circadia.stores.sql.episodes import SqlEpisodes
from circadia.stores.sql.events import SqlEvents
from circadia.stores.sql.hold_places import SqlHoldPlaces
from circadia.stores.sql.link import OpeningStatements, Runner
from circadia.stores.sql.link_pool import LinkPool
from circadia.stores.sql.members import SqlMembers
from circadia.stores.sql.messages import SqlMessages
from circadia.stores.sql.notes import SqlNotes
from circadia.stores.sql.open_turns import SqlOpenTurns
from circadia.stores.sql.overview import SqlOverviews
from circadia.stores.sql.passes import SqlPasses
from circadia.stores.sql.provenances import SqlProvenances
from circadia.stores.sql.provider_ids import SqlProviderIds
from circadia.stores.sql.pulses import SqlPulses
from circadia.stores.sql.readers import LimitedReadBlock, ReadBlock, SingleReadBlock
from circadia.stores.sql.retention import SqlRetention
from circadia.stores.sql.routines import SqlRoutines
from circadia.stores.sql.schema import metadata
from circadia.stores.sql.sessions import SqlSessions
from circadia.stores.sql.short_reads import SingleRead
from circadia.stores.sql.sleep_calls import SqlSleepCalls
from circadia.stores.sql.sleep_states import SqlSleepStates
from circadia.stores.sql.threads import SqlThreads
from circadia.stores.sql.wakes import SqlWakes
from circadia.stores.sql.write_block import BlockWriter

_logger = logging.getLogger(__name__)

SMALL_BYTES: Final = 1
LARGE_BYTES: Final = 262_144
"""Larger than nearly any write: after a failed write, a full disk may still have room for a small one."""

write_probe = Table(
    "write_probe", metadata, Column("id", Integer, primary_key=True), Column("filling", LargeBinary, nullable=False)
)

_FILL: Final = update(write_probe).values(filling=bindparam("bytes"))


def fill(size: int) -> Callable[[Connection], None]:
    """Return work that writes `size` random bytes, which no database can compress."""

    def work(connection: Connection) -> None:
        connection.execute(_FILL, {"bytes": os.urandom(size)})

    return work


OPERATOR_READERS: Final = 2
"""Connections for what people read."""
OPERATOR_READ_SECONDS: Final = 5.0
"""Usual maximum time of one of their statements."""
_Keep = Callable[[Callable[[], None]], None]
N = TypeVar("N")
_PROVED_SECONDS: Final = 5.0
"""Time for which a successful probe write of `ping` counts; other commits may have changed no row."""


class _Noun:
    """A noun of a transaction, made when it is first used: a block uses three of thirty."""

    def __init__(self, build: Callable[[Runner], object]) -> None:
        self._build = build
        self._name = ""

    def __set_name__(self, owner: type["SqlTx"], name: str) -> None:
        self._name = name

    def __get__(self, tx: "SqlTx", owner: type["SqlTx"]) -> object:
        noun = tx.__dict__[self._name] = self._build(tx.runner)
        return noun


def _build_once(build: Callable[[Runner], N]) -> N:
    return cast("N", _Noun(build))  # what a transaction has instead of it


class SqlTx:
    """A transaction over all nouns."""

    agents: Agents = _build_once(SqlAgents)
    threads: Threads = _build_once(SqlThreads)
    messages: Messages = _build_once(SqlMessages)
    deliveries: Deliveries = _build_once(SqlDeliveries)
    events: Events = _build_once(SqlEvents)
    calls: Calls = _build_once(SqlCalls)
    provider_ids: ProviderIds = _build_once(SqlProviderIds)
    provenances: Provenances = _build_once(SqlProvenances)
    retention: Retention = _build_once(SqlRetention)
    alerts: Alerts = _build_once(SqlAlerts)
    access_tokens: AccessTokens = _build_once(SqlAccessTokens)
    dream_jobs: DreamJobs = _build_once(SqlDreamJobs)
    overviews: Overviews = _build_once(SqlOverviews)
    cursors: Cursors = _build_once(SqlCursors)
    conversations: Conversations = _build_once(SqlConversations)
    wakes: Wakes = _build_once(SqlWakes)
    pulses: Pulses = _build_once(SqlPulses)
    routines: Routines = _build_once(SqlRoutines)
    episodes: Episodes = _build_once(SqlEpisodes)
    notes: Notes = _build_once(SqlNotes)
    blocks: Blocks = _build_once(SqlBlocks)
    answers: Answers = _build_once(SqlAnswers)
    passes: Passes = _build_once(SqlPasses)
    due_checks: DueChecks = _build_once(SqlDueChecks)
    sleep_states: SleepStates = _build_once(SqlSleepStates)
    sleep_calls: SleepCalls = _build_once(SqlSleepCalls)
    benefits: Benefits = _build_once(SqlBenefits)
    due_work: DueWorks = _build_once(SqlDueWork)
    members: Members = _build_once(SqlMembers)
    hold_places: HoldPlaceCounts = _build_once(SqlHoldPlaces)
    open_turns: OpenTurns = _build_once(SqlOpenTurns)
    banks: Banks = _build_once(lambda runner: SqlBanks(runner, steady=isinstance(runner, ReadBlock)))

    def __init__(
        self,
        runner: Runner,
        after_commit: _Keep,
        after_rollback: _Keep,
        note_touch: Callable[[SessionId, datetime], None],
    ) -> None:
        def touch(session_id: SessionId, at: datetime) -> None:
            after_commit(lambda: note_touch(session_id, at))

        self.runner = runner
        self.sessions: Sessions = SqlSessions(runner, touch)
        self._hold = runner.hold
        self._after_commit = after_commit
        self._after_rollback = after_rollback

    async def hold(self, *keys: LockKey) -> None:
        await self._hold(*keys)

    def after_commit(self, act: Callable[[], None]) -> None:
        """Run `act` once the transaction is durable. Raises RuntimeError in a read block."""
        self._after_commit(act)

    def after_rollback(self, act: Callable[[], None]) -> None:
        """Run `act` once the transaction has failed. Raises RuntimeError in a read block."""
        self._after_rollback(act)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadPools:
    """Connections that read: nobody waits for the reads of others."""

    calls: LinkPool
    """For the calls of agents, and all background work."""
    operators: LinkPool
    """For what people read; each ends a statement that takes too long."""
    probes: LinkPool
    """For `/readyz`."""


class SqlStore:
    """A store on one database: its writer, and its connections for reading."""

    def __init__(
        self, writer: BlockWriter, pools: ReadPools, openings: OpeningStatements, facts: ConnectionFacts | None = None,
        *, limited: OpeningStatements | None = None,
    ) -> None:  # fmt: skip
        """`facts` are those of the way to PostgreSQL. `limited` opens reads for operators, where the links do not."""
        self.writer = writer
        self.facts = facts
        self.readers = pools.calls
        self._pools = pools
        self._openings = openings
        self._limited = limited or openings
        self.commits_in_order = writer.commits_in_order
        self._touches: dict[SessionId, datetime] = {}
        """Last activity by session, not stored yet."""
        self._proved_until = -math.inf
        self.damage: StorageUnavailable | None = None
        """Damage of the database's files, which no retry mends."""

    @asynccontextmanager
    async def begin_write(self, *keys: LockKey) -> AsyncGenerator[Tx]:
        with self.notice_damage():
            async with self.writer.begin(keys) as block:
                yield SqlTx(block, block.after_commit, block.after_rollback, self._note_touch)

    @asynccontextmanager
    async def begin_read(self) -> AsyncGenerator[Tx]:
        with self.notice_damage():
            async with ReadBlock(self.readers, self._openings) as block:
                yield SqlTx(block, _refuse, _refuse, self._note_touch)

    @asynccontextmanager
    async def begin_single_read(self) -> AsyncGenerator[Tx]:
        with self.notice_damage():
            async with SingleReadBlock(self.readers, self._openings) as block:
                yield SqlTx(block, _refuse, _refuse, self._note_touch)

    @contextmanager
    def notice_damage(self) -> Generator[None]:
        try:
            yield
        except StorageUnavailable as error:
            if self.damage is None and is_damage(error):
                self.report_damage(error)
            raise

    def report_damage(self, damage: StorageUnavailable) -> None:
        """Note a damage that a block or a check has met: until a restart, `ping` fails with it."""
        self.damage = damage
        _logger.critical("the database is damaged: %s", damage.message)

    @property
    def for_operators(self) -> Store:
        """The same store, whose read blocks may be slow without holding up others. They raise ReadTooSlow."""
        return _OperatorStore(self, self._pools.operators, self._limited)

    def _note_touch(self, session_id: SessionId, at: datetime) -> None:
        self._touches[session_id] = max(at, self._touches.get(session_id, at))

    async def save_touches(self) -> None:
        touches, self._touches = self._touches, {}
        if touches:
            async with self.begin_write() as tx:
                await tx.sessions.save_touches(touches)

    async def read_clock(self) -> datetime | None:
        async with SingleReadBlock(self.readers, self._openings) as block:
            return await block.run(SingleRead(_read_clock))

    async def ping(self) -> None:
        """Check that the database answers and accepts writes. Raises StorageUnavailable.

        It probes with a write after a failed write, and every few seconds.
        """
        if self.damage is not None:
            raise self.damage
        self.writer.check()
        async with ReadBlock(self._pools.probes, self._openings) as block:
            await block.run(_ping)
        failure, now = self.writer.failure, asyncio.get_running_loop().time()
        if failure is not None or now >= self._proved_until:
            async with self.writer.begin(()) as block:
                await block.run(fill(SMALL_BYTES if failure is None else LARGE_BYTES))
            self.writer.failure, self._proved_until = None, now + _PROVED_SECONDS

    async def close(self) -> None:
        """Let running and waiting blocks end, then close the connections."""
        await self.writer.close()
        for pool in (self._pools.calls, self._pools.operators, self._pools.probes):
            await pool.close()


class _OperatorStore:
    """A store whose read blocks use connections of their own; all else is as in the store."""

    def __init__(self, store: SqlStore, readers: LinkPool, openings: OpeningStatements) -> None:
        self.commits_in_order = store.commits_in_order
        self.begin_write = store.begin_write
        self.read_clock = store.read_clock
        self.ping = store.ping
        self.save_touches = store.save_touches
        self.close = store.close
        self.for_operators: Store = self
        self._notice_damage = store.notice_damage
        self._readers = readers
        self._openings = openings

    @asynccontextmanager
    async def begin_read(self) -> AsyncGenerator[Tx]:
        with self._notice_damage():
            async with LimitedReadBlock(self._readers, self._openings) as block:
                yield SqlTx(block, _refuse, _refuse, _note_no_touch)

    begin_single_read = begin_read


def _read_clock(connection: Connection) -> datetime | None:
    if connection.dialect.name != "postgresql":
        return None
    now: datetime = connection.execute(text("SELECT clock_timestamp()")).scalar_one()
    return now


def _ping(connection: Connection) -> None:
    connection.execute(text("SELECT 1"))


def _note_no_touch(session_id: SessionId, at: datetime) -> None:
    """Do nothing: a read block changes no session."""


def _refuse(act: Callable[[], None]) -> None:
    raise RuntimeError("a read block commits nothing")
