"""The SQLite store: WAL, durable commits, one writing connection and several readers.

A writer's statements, commits and reads of a few rows by key are short and touch memory only. They run in the event
loop: a trip to a thread costs more than the statement and waits for the interpreter's lock when the loop is busy. Other
reads may be long, so each connection has a thread; opening and closing run there too.

Disk waits have their own threads: one syncs the log after commits, one copies the log into the database.
SQLite's own durability (`synchronous = FULL`) would sync within each commit, while no block runs: on a disk whose sync
takes 3 ms more, 728 decisions a second instead of 1,053 (`python -m benchmarks admission`, both ways in one session).
"""

import asyncio
import fcntl
import logging
import os
import sqlite3
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Final, TypeVar

import orjson
from sqlalchemy import Connection, Engine, NullPool, create_engine

from circadia.errors import StartError, StorageUnavailable
from circadia.stores.sql.driver_errors import wrap_driver_errors
from circadia.stores.sql.group_commit import GroupCommitWriter
from circadia.stores.sql.link import OpeningStatements, Work, do_nothing
from circadia.stores.sql.link_pool import LinkPool
from circadia.stores.sql.migrate import migrate
from circadia.stores.sql.statement import DRIVER_CONNECTION
from circadia.stores.sql_store import OPERATOR_READ_SECONDS, OPERATOR_READERS, ReadPools, SqlStore
from circadia.stores.worker_thread import ThreadJob, WorkerThread

T = TypeVar("T")

_logger = logging.getLogger(__name__)

_NAME: Final = "SQLite"
_MIGRATING: Final = Lock()
"""Alembic works with module variables."""
_OPENINGS: Final = OpeningStatements(write=("BEGIN IMMEDIATE",), read=("BEGIN",))
_PRAGMAS: Final = (
    "PRAGMA journal_mode = WAL",  # readers and the writer do not wait for each other
    "PRAGMA synchronous = FULL",
    "PRAGMA fullfsync = ON",  # on macOS a plain fsync stops at the drive's cache
    "PRAGMA foreign_keys = ON",
    "PRAGMA journal_size_limit = 67108864",  # return the disk space after a burst
    "PRAGMA busy_timeout = 0",  # the event loop must not wait in SQLite; see `_Link`
    "PRAGMA temp_store = MEMORY",  # else each transaction writes its savepoint data to a file
)
_READER_PRAGMAS: Final = ("PRAGMA query_only = ON",)
_WRITER_PRAGMAS: Final = (
    "PRAGMA synchronous = NORMAL",  # a commit does not wait for the disk: `_WritingLink.sync` does
    "PRAGMA wal_autocheckpoint = 0",  # `_WritingLink` copies the log instead
    "PRAGMA cache_size = -8192",  # KiB: consecutive write blocks need more than the default of 2 MiB
)
_COPY_COMMITS: Final = 64
"""Commits between copies of the log into the database: some thousand pages, like SQLite's default."""
_LOG_BYTES: Final = 268_435_456
"""A larger log is copied while no block writes, so that it starts over. SQLite does this by itself when the whole log
is copied and nothing was added meanwhile, which never happens on a server that writes without a pause."""
_COPY: Final = "PRAGMA wal_checkpoint(PASSIVE)"
_LOCKED_SECONDS: Final = 5.0
"""Retry time while another program locks the database."""
_RETRY_SECONDS: Final = 0.01
_TURN_SECONDS: Final = 0.02
"""Short work that may follow one another in a turn of the event loop; a callback may take 50 ms (LARGE-04)."""


def create_sqlite_engine(path: Path) -> Engine:
    """Return an engine whose connections begin and commit themselves."""
    return create_engine(
        "sqlite://",
        # Mode `rw` makes a missing file an error instead of creating an empty database.
        creator=lambda: sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None, check_same_thread=False
        ),
        poolclass=NullPool,
        isolation_level="AUTOCOMMIT",
        json_serializer=_to_json,
        json_deserializer=orjson.loads,
    )


async def open_sqlite(path: Path, *, readers: int = 4, operator_seconds: float = OPERATOR_READ_SECONDS) -> SqlStore:
    """Open or create the database file, migrate it and return its store.

    `readers` is the number of read connections; a statement for an operator may take `operator_seconds`.

    Raises:
        StartError: the file cannot be opened, is no SQLite database, or belongs to a newer version.
    """
    engine = create_sqlite_engine(path)
    link = _Link(_SqliteConnection(engine), "sqlite-opening")
    try:
        await asyncio.to_thread(path.touch, 0o600)
        if not os.access(path, os.W_OK):  # SQLite would open it for reading
            raise StartError(f"cannot write the database {str(path)!r}; check the owner and the mode of the file")
        await link.run(_migrate, first=_OPENINGS.write, opens=True)
        await link.run(do_nothing, first=("COMMIT",))
    except (StorageUnavailable, OSError) as error:
        raise StartError(f"cannot open the database {str(path)!r}: {error}") from error
    finally:
        await link.drop()

    def pool(size: int, name: str, seconds: float | None = None) -> LinkPool:
        return LinkPool(lambda: _Link(_SqliteConnection(engine, *_READER_PRAGMAS), name, seconds), size=size)

    pools = ReadPools(
        calls=pool(readers, "sqlite-reader"), probes=pool(1, "sqlite-probe"),
        operators=pool(OPERATOR_READERS, "sqlite-operators", operator_seconds),
    )  # fmt: skip
    return SqlStore(GroupCommitWriter(_WritingLink(engine, path), _OPENINGS), pools, _OPENINGS)


def _migrate(connection: Connection) -> None:
    with _MIGRATING:  # one at a time: dreams open the databases in their folders at any time
        migrate(connection)


class _SqliteConnection:
    def __init__(self, engine: Engine, *pragmas: str) -> None:
        self._engine = engine
        self._pragmas = (*_PRAGMAS, *pragmas)
        self._connection: Connection | None = None
        self._driver: sqlite3.Connection

    @property
    def is_open(self) -> bool:
        return self._connection is not None

    def run_work(self, work: Work[T], first: Sequence[str], opens: bool) -> T:
        with wrap_driver_errors(_NAME, sqlite3.Error):
            connection = self._connection or self.open()
            if opens and self._driver.in_transaction:
                self._driver.execute("ROLLBACK")
            elif not opens and not self._driver.in_transaction:
                raise StorageUnavailable(f"{_NAME} has rolled the transaction back")
            for statement in first:
                self._driver.execute(statement)
            return work(connection)

    def open(self) -> Connection:
        with wrap_driver_errors(_NAME, sqlite3.Error):
            connection = self._engine.connect()
            driver = connection.connection.driver_connection
            if not isinstance(driver, sqlite3.Connection):
                raise TypeError(f"{type(driver)} is not the driver's connection")
            try:
                for pragma in self._pragmas:
                    driver.execute(pragma)
            except sqlite3.Error:
                connection.close()
                raise
            connection.info[DRIVER_CONNECTION] = driver
            self._driver = driver
            self._connection = connection
            return connection

    def interrupt(self) -> None:
        """End the running statement, from any thread."""
        if self._connection is not None:
            self._driver.interrupt()

    def roll_back(self) -> None:
        if self._connection is not None and self._driver.in_transaction:
            self._driver.execute("ROLLBACK")

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class _Link:
    """A connection that runs short work in the event loop and all else in its thread."""

    def __init__(self, session: _SqliteConnection, name: str, seconds: float | None = None) -> None:
        """With `seconds`, work that takes longer is interrupted."""
        self._session = session
        self._thread = WorkerThread(name)
        self._seconds = seconds
        self._turn_ends: float | None = None
        """When short work has had its share of this turn of the event loop; None if it has done nothing in it."""

    async def run(
        self, work: Work[T], *, first: Sequence[str] = (), opens: bool = False, short: bool | None = None
    ) -> T:
        """See `Link.run`. Waits in the event loop while another program locks the database."""
        is_short = self._is_short(short, first)
        if not opens:
            return await self._run_work(work, first, opens=False, short=is_short)
        if not self._session.is_open:
            await self._thread.run_job(self._session.open)
        clock = asyncio.get_running_loop().time
        deadline = clock() + _LOCKED_SECONDS
        while True:
            try:
                return await self._run_work(work, first, opens=True, short=is_short)
            except StorageUnavailable as error:
                if not _is_lock(error.__cause__) or clock() >= deadline:
                    raise
            await asyncio.sleep(_RETRY_SECONDS)

    def _is_short(self, short: bool | None, first: Sequence[str]) -> bool:
        return short is True

    async def _run_work(self, work: Work[T], first: Sequence[str], *, opens: bool, short: bool) -> T:
        if short:
            await self._share_turn()
            if self._thread.is_idle:  # else the connection is busy with earlier work
                return self._session.run_work(work, first, opens)
        job = partial(self._session.run_work, work, first, opens)
        if self._seconds is None:
            return await self._thread.run_job(job)
        limit = asyncio.get_running_loop().call_later(self._seconds, self._session.interrupt)
        try:
            return await self._thread.run_job(job)
        finally:
            limit.cancel()

    async def _share_turn(self) -> None:
        """Let other tasks run if much short work has been done in one turn of the event loop."""
        loop = asyncio.get_running_loop()
        if self._turn_ends is None:
            self._turn_ends = loop.time() + _TURN_SECONDS
            loop.call_soon(self._end_turn)
        elif loop.time() > self._turn_ends:
            await asyncio.sleep(0)

    def _end_turn(self) -> None:
        self._turn_ends = None

    def roll_back(self) -> None:
        if self._thread.is_idle:
            with wrap_driver_errors(_NAME, sqlite3.Error):
                self._session.roll_back()
        else:
            self._thread.submit(ThreadJob(do=self._session.roll_back))

    async def drop(self) -> None:
        await self._thread.run_job(self._session.close)
        self._thread.end()


class _WritingLink(_Link):
    """The writing connection. Its work is short, except long work and copying a log that has grown large."""

    def __init__(self, engine: Engine, path: Path) -> None:
        super().__init__(_SqliteConnection(engine, *_WRITER_PRAGMAS), "sqlite-writer")
        self._path = path
        self._syncing = WorkerThread("sqlite-sync")
        self._log: int | None = None
        """The log's file descriptor for syncs; the file stays the same while this connection is open."""
        self._copier = _Link(_SqliteConnection(engine), "sqlite-checkpoint")
        self._copying: asyncio.Task[None] | None = None
        self._commits = 0
        """Commits since the last copy of the log."""
        self._failure: StorageUnavailable | None = None

    def _is_short(self, short: bool | None, first: Sequence[str]) -> bool:
        return _COPY not in first and short is not False

    async def run(
        self, work: Work[T], *, first: Sequence[str] = (), opens: bool = False, short: bool | None = None
    ) -> T:
        done = await super().run(work, first=first, opens=opens, short=short)
        if "COMMIT" in first:
            self._commits += 1
            if self._commits == _COPY_COMMITS and self._log is not None and os.fstat(self._log).st_size > _LOG_BYTES:
                await _copy_log(self)
        return done

    async def sync(self) -> None:
        """Wait until the commits are on disk; see `WritingLink.sync`.

        After a failed sync the system may discard unwritten data, and a second sync would report success. So all later
        ones fail too, until the server restarts.
        """
        if self._failure is None:
            try:
                with wrap_driver_errors(_NAME, OSError):
                    if self._log is None:
                        self._log = await self._syncing.run_job(lambda: _open_log(self._path))
                    log = self._log
                    # One system call: after each, the thread waits for the interpreter's lock.
                    await self._syncing.run_job(lambda: _sync(log))
            except StorageUnavailable as error:
                self._failure = StorageUnavailable(f"{error.message}; restart the server when the disk works again")
                _logger.exception("the disk failed a sync: no write is acknowledged until the server restarts")
        self.check()
        if self._commits >= _COPY_COMMITS and (self._copying is None or self._copying.done()):
            self._commits = 0
            self._copying = asyncio.get_running_loop().create_task(_copy_log(self._copier))

    def check(self) -> None:
        """Raise StorageUnavailable if a sync has failed."""
        if self._failure is not None:
            raise self._failure

    async def drop(self) -> None:
        if self._copying is not None:
            await self._copying
        await self._copier.drop()
        await super().drop()
        log, self._log = self._log, None
        if log is not None:
            await self._syncing.run_job(lambda: os.close(log))
        self._syncing.end()


async def _copy_log(link: _Link) -> None:
    try:
        await link.run(do_nothing, first=(_COPY,), opens=True)
    except StorageUnavailable as error:  # the log keeps everything, and the next copy may succeed
        _logger.warning("the log was not copied into the database: %s", error.message)


def _open_log(path: Path) -> int:
    """Open the database's log after syncing its directory entry. Raises OSError."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return os.open(f"{path}-wal", os.O_RDONLY)


def _sync(file: int) -> None:
    """Flush the file to disk. Raises OSError."""
    if sys.platform == "darwin":
        fcntl.fcntl(file, fcntl.F_FULLFSYNC)  # a plain fsync stops at the drive's cache there
    else:
        os.fdatasync(file)  # without timestamps, for which the file system would write its own log each time


def _is_lock(error: BaseException | None) -> bool:
    return isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY


def _to_json(value: object) -> str:
    return orjson.dumps(value).decode()
