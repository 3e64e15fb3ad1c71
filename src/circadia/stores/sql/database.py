"""The SQL store, shared by both dialects; they differ in their connections only."""

import asyncio
import logging
import math
import os
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from typing import Final

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
    Threads,
    Tx,
    Views,
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
from circadia.stores.sql.readers import ReadBlock, SingleReadBlock
from circadia.stores.sql.retention import SqlRetention
from circadia.stores.sql.routines import SqlRoutines
from circadia.stores.sql.schema import metadata
from circadia.stores.sql.sessions import SqlSessions
from circadia.stores.sql.short_reads import SingleRead
from circadia.stores.sql.sleep_calls import SqlSleepCalls
from circadia.stores.sql.sleep_states import SqlSleepStates
from circadia.stores.sql.threads import SqlThreads
from circadia.stores.sql.views import SqlViews
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


_Keep = Callable[[Callable[[], None]], None]
_PROVED_SECONDS: Final = 5.0
"""Time for which a successful probe write of `ping` counts; other commits may have changed no row."""


class SqlTx:
    """A transaction over all nouns."""

    def __init__(
        self,
        runner: Runner,
        after_commit: _Keep,
        after_rollback: _Keep,
        note_touch: Callable[[SessionId, datetime], None],
    ) -> None:
        def touch(session_id: SessionId, at: datetime) -> None:
            after_commit(lambda: note_touch(session_id, at))

        self.sessions: Sessions = SqlSessions(runner, touch)
        self.agents: Agents = SqlAgents(runner)
        self.threads: Threads = SqlThreads(runner)
        self.messages: Messages = SqlMessages(runner)
        self.deliveries: Deliveries = SqlDeliveries(runner)
        self.events: Events = SqlEvents(runner)
        self.calls: Calls = SqlCalls(runner)
        self.provider_ids: ProviderIds = SqlProviderIds(runner)
        self.provenances: Provenances = SqlProvenances(runner)
        self.retention: Retention = SqlRetention(runner)
        self.alerts: Alerts = SqlAlerts(runner)
        self.access_tokens: AccessTokens = SqlAccessTokens(runner)
        self.dream_jobs: DreamJobs = SqlDreamJobs(runner)
        self.overviews: Overviews = SqlOverviews(runner)
        self.cursors: Cursors = SqlCursors(runner)
        self.conversations: Conversations = SqlConversations(runner)
        self.wakes: Wakes = SqlWakes(runner)
        self.pulses: Pulses = SqlPulses(runner)
        self.routines: Routines = SqlRoutines(runner)
        self.banks: Banks = SqlBanks(runner, steady=isinstance(runner, ReadBlock))
        self.episodes: Episodes = SqlEpisodes(runner)
        self.notes: Notes = SqlNotes(runner)
        self.blocks: Blocks = SqlBlocks(runner)
        self.views: Views = SqlViews(runner)
        self.answers: Answers = SqlAnswers(runner)
        self.passes: Passes = SqlPasses(runner)
        self.sleep_states: SleepStates = SqlSleepStates(runner)
        self.sleep_calls: SleepCalls = SqlSleepCalls(runner)
        self.benefits: Benefits = SqlBenefits(runner)
        self.due_work: DueWorks = SqlDueWork(runner)
        self.members: Members = SqlMembers(runner)
        self.hold_places: HoldPlaceCounts = SqlHoldPlaces(runner)
        self.open_turns: OpenTurns = SqlOpenTurns(runner)
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


class SqlStore:
    """A store on one database: its writer, and its connections for reading."""

    def __init__(
        self, writer: BlockWriter, readers: LinkPool, openings: OpeningStatements, facts: ConnectionFacts | None = None
    ) -> None:
        """`facts` are those of the way to PostgreSQL."""
        self.writer = writer
        self.facts = facts
        self.readers = readers
        self._openings = openings
        self.commits_in_order = writer.commits_in_order
        self._touches: dict[SessionId, datetime] = {}
        """Last activity by session, not stored yet."""
        self._proved_until = -math.inf
        self.damage: StorageUnavailable | None = None
        """Damage of the database's files, which no retry mends."""

    @asynccontextmanager
    async def begin_write(self, *keys: LockKey) -> AsyncGenerator[Tx]:
        with self._noticed_damage():
            async with self.writer.begin(keys) as block:
                yield SqlTx(block, block.after_commit, block.after_rollback, self._note_touch)

    @asynccontextmanager
    async def begin_read(self) -> AsyncGenerator[Tx]:
        with self._noticed_damage():
            async with ReadBlock(self.readers, self._openings) as block:
                yield SqlTx(block, _refuse, _refuse, self._note_touch)

    @asynccontextmanager
    async def begin_single_read(self) -> AsyncGenerator[Tx]:
        with self._noticed_damage():
            async with SingleReadBlock(self.readers, self._openings) as block:
                yield SqlTx(block, _refuse, _refuse, self._note_touch)

    @contextmanager
    def _noticed_damage(self) -> Generator[None]:
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
        async with ReadBlock(self.readers, self._openings) as block:
            await block.run(_ping)
        failure, now = self.writer.failure, asyncio.get_running_loop().time()
        if failure is not None or now >= self._proved_until:
            async with self.writer.begin(()) as block:
                await block.run(fill(SMALL_BYTES if failure is None else LARGE_BYTES))
            self.writer.failure, self._proved_until = None, now + _PROVED_SECONDS

    async def close(self) -> None:
        """Let running and waiting blocks end, then close the connections."""
        await self.writer.close()
        await self.readers.close()


def _read_clock(connection: Connection) -> datetime | None:
    if connection.dialect.name != "postgresql":
        return None
    now: datetime = connection.execute(text("SELECT clock_timestamp()")).scalar_one()
    return now


def _ping(connection: Connection) -> None:
    connection.execute(text("SELECT 1"))


def _refuse(act: Callable[[], None]) -> None:
    raise RuntimeError("a read block commits nothing")
