"""The store on SQLite: a thread per connection, WAL, and commits that reach the disk."""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, Final, TypeVar

import orjson
from sqlalchemy import Connection, Engine, NullPool, create_engine

from circadia.errors import StartError, StorageUnavailable
from circadia.stores.sql.database import SqlStore
from circadia.stores.sql.driver_errors import wrapped
from circadia.stores.sql.link import Openings, nothing
from circadia.stores.sql.migrate import migrate

T = TypeVar("T")

_logger = logging.getLogger(__name__)

_NAME: Final = "SQLite"
_OPENINGS: Final = Openings(write=("BEGIN IMMEDIATE",), read=("BEGIN",))
_PRAGMAS: Final = (
    "PRAGMA journal_mode = WAL",  # readers and the writer do not wait for each other
    "PRAGMA synchronous = FULL",  # a commit returns when it is on the disk
    "PRAGMA fullfsync = ON",  # on macOS a plain fsync stops at the drive's cache
    "PRAGMA busy_timeout = 5000",
    "PRAGMA foreign_keys = ON",
    "PRAGMA journal_size_limit = 67108864",  # give the disk back after a burst
)


async def open_sqlite(path: Path, *, readers: int = 4) -> SqlStore:
    """Open or make the database file, bring it to the present schema and return the store on it.

    Raises:
        StartError: It cannot be opened, is no SQLite database, or belongs to a newer version.
    """
    engine = create_engine(
        "sqlite://",
        # Under `rw` a file that has gone is an error, not a new and empty database.
        creator=lambda: sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None),
        poolclass=NullPool,
        isolation_level="AUTOCOMMIT",  # the links begin and commit themselves
        json_serializer=_to_json,
        json_deserializer=orjson.loads,
    )

    def connect(writes: bool) -> _SqliteLink:
        return _SqliteLink(engine, writes=writes)

    link = connect(True)
    try:
        await asyncio.to_thread(path.touch, 0o600)
        await link.run(migrate, first=_OPENINGS.write, opens=True)
        await link.run(nothing, first=("COMMIT",))
    except (StorageUnavailable, OSError) as error:
        raise StartError(f"cannot open the database {str(path)!r}: {error}") from error
    finally:
        await link.drop()
    return SqlStore(connect, _OPENINGS, readers=readers)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Job:
    """Something for the connection's thread to do, and where its outcome is awaited."""

    do: Callable[[], Any]
    future: asyncio.Future[Any] | None = None


class _SqliteLink:
    """A connection with a thread of its own, in which each statement and its reading is one trip.

    SQLAlchemy's asynchronous driver for SQLite makes a trip for each of cursor, execute, fetch and close.
    """

    def __init__(self, engine: Engine, *, writes: bool) -> None:
        self._engine = engine
        self._writes = writes
        self._jobs: SimpleQueue[_Job | None] | None = None
        self._thread: Thread | None = None
        # What follows belongs to the thread.
        self._connection: Connection | None = None
        self._driver: sqlite3.Connection

    async def run(self, work: Callable[[Connection], T], *, first: Sequence[str] = (), opens: bool = False) -> T:
        """Do it, as `Link.run` tells."""
        future = asyncio.get_running_loop().create_future()
        self._give(_Job(do=lambda: self._do(work, first, opens), future=future))
        return await future

    def finish(self) -> None:
        """Roll back what is open."""
        self._give(_Job(do=self._roll_back))

    async def drop(self) -> None:
        """Close the connection and end its thread."""
        if self._jobs is None or self._thread is None:
            return
        jobs, thread = self._jobs, self._thread
        self._jobs = self._thread = None
        future = asyncio.get_running_loop().create_future()
        jobs.put(_Job(do=self._close, future=future))
        jobs.put(None)
        await future
        thread.join()

    def _give(self, job: _Job) -> None:
        if self._jobs is None:
            self._jobs = SimpleQueue()
            self._thread = Thread(
                target=_serve,
                args=(self._jobs,),
                name="sqlite-writer" if self._writes else "sqlite-reader",
                daemon=True,
            )
            self._thread.start()
        self._jobs.put(job)

    def _do(self, work: Callable[[Connection], T], first: Sequence[str], opens: bool) -> T:
        with wrapped(_NAME, sqlite3.Error):
            connection = self._connection or self._connect()
            if opens and self._driver.in_transaction:
                self._driver.execute("ROLLBACK")
            elif not opens and not self._driver.in_transaction:
                raise StorageUnavailable(f"{_NAME} has rolled the transaction back")
            for statement in first:
                self._driver.execute(statement)
            return work(connection)

    def _connect(self) -> Connection:
        connection = self._engine.connect()
        driver = connection.connection.driver_connection
        if not isinstance(driver, sqlite3.Connection):
            raise TypeError(f"{type(driver)} is not the driver's connection")
        try:
            for pragma in _PRAGMAS:
                driver.execute(pragma)
            if not self._writes:
                driver.execute("PRAGMA query_only = ON")
        except sqlite3.Error:
            connection.close()
            raise
        self._driver = driver
        self._connection = connection
        return connection

    def _roll_back(self) -> None:
        if self._connection is not None and self._driver.in_transaction:
            self._driver.execute("ROLLBACK")

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _serve(jobs: SimpleQueue[_Job | None]) -> None:
    """Do jobs in order until there is none."""
    while (job := jobs.get()) is not None:
        outcome: Any = None
        error: BaseException | None = None
        try:
            outcome = job.do()
        except BaseException as raised:  # noqa: BLE001 - it is raised again where the job is awaited
            error = raised
        if job.future is None:
            if error is not None:
                _logger.error("a rollback failed", exc_info=error)
            continue
        with suppress(RuntimeError):  # the loop has ended, and who waited with it
            job.future.get_loop().call_soon_threadsafe(_settle, job.future, outcome, error)


def _settle(future: asyncio.Future[Any], outcome: object, error: BaseException | None) -> None:
    if future.done():
        return  # the caller was cancelled
    if error is None:
        future.set_result(outcome)
    else:
        future.set_exception(error)


def _to_json(value: object) -> str:
    return orjson.dumps(value).decode()
