"""The SQL store, shared by both dialects; they differ in their connections only."""

import asyncio
import logging
import math
import os
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import Connection, bindparam, text, update

from circadia.errors import StorageUnavailable
from circadia.ids import SessionId
from circadia.stores.base import Store
from circadia.stores.locks import LockKey
from circadia.stores.sql.driver_errors import is_damage
from circadia.stores.sql.link import OpeningStatements
from circadia.stores.sql.link_pool import LinkPool
from circadia.stores.sql.readers import LimitedReadBlock, ReadBlock, SingleReadBlock
from circadia.stores.sql.revision import ConnectionFacts
from circadia.stores.sql.schema import write_probe
from circadia.stores.sql.tx import Tx
from circadia.stores.sql.write_block import BlockWriter

_logger = logging.getLogger(__name__)

SMALL_BYTES: Final = 1
LARGE_BYTES: Final = 262_144
"""Larger than nearly any write: after a failed write, a full disk may still have room for a small one."""
OPERATOR_READERS: Final = 2
"""Connections for what people read."""
OPERATOR_READ_SECONDS: Final = 5.0
"""Usual maximum time of one of their statements."""
_PROVED_SECONDS: Final = 5.0
"""Time for which a successful probe write of `ping` counts; other commits may have changed no row."""
_FILL: Final = update(write_probe).values(filling=bindparam("bytes"))


def fill(size: int) -> Callable[[Connection], None]:
    """Return work that writes `size` random bytes, which no database can compress."""

    def work(connection: Connection) -> None:
        connection.execute(_FILL, {"bytes": os.urandom(size)})

    return work


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
                yield Tx(block, block.after_commit, block.after_rollback, self._note_touch)

    @asynccontextmanager
    async def begin_read(self) -> AsyncGenerator[Tx]:
        with self.notice_damage():
            async with ReadBlock(self.readers, self._openings) as block:
                yield Tx(block, _refuse, _refuse, self._note_touch)

    @asynccontextmanager
    async def begin_single_read(self) -> AsyncGenerator[Tx]:
        with self.notice_damage():
            async with SingleReadBlock(self.readers, self._openings) as block:
                yield Tx(block, _refuse, _refuse, self._note_touch)

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
            return await block.run(_read_clock, single="read")

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
                yield Tx(block, _refuse, _refuse, _note_no_touch)

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
