"""The SQL store, shared by both dialects; they differ in their connections only."""

import asyncio
import math
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final

from sqlalchemy import Column, Connection, Integer, LargeBinary, Table, bindparam, text, update

from circadia.stores.base import (
    Agents,
    Alerts,
    Answers,
    Banks,
    Benefits,
    Blocks,
    Calls,
    Conversations,
    Deliveries,
    Episodes,
    Events,
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
from circadia.stores.sql.agents import SqlAgents
from circadia.stores.sql.alerts import SqlAlerts
from circadia.stores.sql.answers import SqlAnswers
from circadia.stores.sql.banks import SqlBanks
from circadia.stores.sql.benefits import SqlBenefits
from circadia.stores.sql.blocks import SqlBlocks
from circadia.stores.sql.calls import SqlCalls
from circadia.stores.sql.conversations import SqlConversations
from circadia.stores.sql.deliveries import SqlDeliveries
from circadia.stores.sql.episodes import SqlEpisodes
from circadia.stores.sql.events import SqlEvents
from circadia.stores.sql.group_commit import GroupCommitWriter, WriteTransaction
from circadia.stores.sql.link import Link, OpeningStatements, Runner, WritingLink
from circadia.stores.sql.messages import SqlMessages
from circadia.stores.sql.notes import SqlNotes
from circadia.stores.sql.open_turns import SqlOpenTurns
from circadia.stores.sql.passes import SqlPasses
from circadia.stores.sql.provenances import SqlProvenances
from circadia.stores.sql.provider_ids import SqlProviderIds
from circadia.stores.sql.pulses import SqlPulses
from circadia.stores.sql.readers import ReadBlock, ReaderPool, SingleReadBlock
from circadia.stores.sql.retention import SqlRetention
from circadia.stores.sql.routines import SqlRoutines
from circadia.stores.sql.schema import metadata
from circadia.stores.sql.sessions import SqlSessions
from circadia.stores.sql.sleep_calls import SqlSleepCalls
from circadia.stores.sql.sleep_states import SqlSleepStates
from circadia.stores.sql.threads import SqlThreads
from circadia.stores.sql.views import SqlViews
from circadia.stores.sql.wakes import SqlWakes

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

    def __init__(self, runner: Runner, after_commit: _Keep, after_rollback: _Keep) -> None:
        self.sessions: Sessions = SqlSessions(runner)
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
        self.open_turns: OpenTurns = SqlOpenTurns(runner)
        self._after_commit = after_commit
        self._after_rollback = after_rollback

    def after_commit(self, act: Callable[[], None]) -> None:
        """Run `act` once the transaction is durable. Raises RuntimeError in a read block."""
        self._after_commit(act)

    def after_rollback(self, act: Callable[[], None]) -> None:
        """Run `act` once the transaction has failed. Raises RuntimeError in a read block."""
        self._after_rollback(act)


class SqlStore:
    """A store on one database, with a writing connection and a pool of readers."""

    def __init__(
        self, writer: WritingLink, reader: Callable[[], Link], openings: OpeningStatements, *, readers: int
    ) -> None:
        """`reader` opens a read connection."""
        self.writer = GroupCommitWriter(writer, openings)
        self.readers = ReaderPool(reader, openings, size=readers)
        self._proved_until = -math.inf

    @asynccontextmanager
    async def begin_write(self) -> AsyncGenerator[Tx]:
        async with WriteTransaction(self.writer) as block:
            yield SqlTx(block, block.after_commit, block.after_rollback)

    @asynccontextmanager
    async def begin_read(self) -> AsyncGenerator[Tx]:
        async with ReadBlock(self.readers) as block:
            yield SqlTx(block, _refuse, _refuse)

    @asynccontextmanager
    async def begin_single_read(self) -> AsyncGenerator[Tx]:
        async with SingleReadBlock(self.readers) as block:
            yield SqlTx(block, _refuse, _refuse)

    async def ping(self) -> None:
        """Check that the database answers and accepts writes. Raises StorageUnavailable.

        It probes with a write after a failed write, and every few seconds.
        """
        self.writer.link.check()
        async with ReadBlock(self.readers) as block:
            await block.run(_ping)
        failure, now = self.writer.failure, asyncio.get_running_loop().time()
        if failure is not None or now >= self._proved_until:
            async with WriteTransaction(self.writer) as block:
                await block.run(fill(SMALL_BYTES if failure is None else LARGE_BYTES))
            self.writer.failure, self._proved_until = None, now + _PROVED_SECONDS

    async def close(self) -> None:
        """Let running and waiting blocks end, then close the connections."""
        await self.writer.close()
        await self.readers.close()


def _ping(connection: Connection) -> None:
    connection.execute(text("SELECT 1"))


def _refuse(act: Callable[[], None]) -> None:
    raise RuntimeError("a read block commits nothing")
