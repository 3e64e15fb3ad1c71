"""The store on PostgreSQL: asyncpg, and one lock that puts the writers of all processes in a row."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar, cast

import orjson
from sqlalchemy import Connection, Engine, NullPool, event
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.util import await_, greenlet_spawn

from circadia.errors import CircadiaError, StartError, StorageUnavailable
from circadia.stores.postgres_driver import DRIVER_ERRORS, Direct, Driver, Driving
from circadia.stores.sql.database import SqlStore
from circadia.stores.sql.driver_errors import wrapped
from circadia.stores.sql.link import Openings, nothing
from circadia.stores.sql.migrate import migrate
from circadia.stores.sql.statement import DIRECT, TOGETHER

T = TypeVar("T")

_NAME: Final = "PostgreSQL"
_OPENINGS: Final = Openings(
    # The lock is let go at the end of the transaction. So what a writer reads stays true until it commits, numbers
    # ascend in the order of commits, and no two writers wait for each other's rows.
    # The commit does not wait for the disk, so that it lets the lock go at once; `_WritingLink.sync` waits.
    write=("BEGIN", "SET LOCAL synchronous_commit = off", "SELECT pg_advisory_xact_lock(4114)"),
    read=("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",),
)
_CONNECT_SECONDS: Final = 5.0
_COMMAND_SECONDS: Final = 30.0
_SYNC: Final = "SELECT pg_logical_emit_message(true, 'circadia', '')"
"""The least that a transaction can write: its commit takes all commits before it to the disk, and is no row."""
_SETTINGS: Final = {
    "application_name": "circadia",
    "synchronous_commit": "on",  # where a writer does not set it off, a commit returns when it is on the disk
    "lock_timeout": "15s",
    "idle_in_transaction_session_timeout": "10s",  # a process that hangs does not keep the others from writing
    "jit": "off",
}


async def open_postgres(url: str, *, readers: int = 4) -> SqlStore:
    """Bring the database to the present schema and return the store on it; `url` is as libpq has it.

    `readers` is the number of connections that read.

    Raises:
        StartError: It cannot be reached, or belongs to a newer version.
    """
    engine = create_async_engine(
        "postgresql+asyncpg://",
        connect_args={
            "dsn": url,
            "connection_class": Driving,
            "timeout": _CONNECT_SECONDS,
            "command_timeout": _COMMAND_SECONDS,
            "server_settings": _SETTINGS,
        },
        poolclass=NullPool,
        isolation_level="AUTOCOMMIT",  # the links begin and commit themselves
        json_serializer=_to_json,
        json_deserializer=orjson.loads,
    ).sync_engine
    event.listen(engine, "before_cursor_execute", _open)
    link = _PostgresLink(engine)
    try:
        await link.run(migrate, first=_OPENINGS.write, opens=True)
        await link.run(nothing, first=("COMMIT",))
    except StartError:
        raise
    except (CircadiaError, ValueError) as error:  # a ValueError is a malformed URL; it may hold a password
        told = error.message if isinstance(error, CircadiaError) else "its URL is malformed"
        raise StartError(f"cannot open the {_NAME} database: {told}") from None
    finally:
        await link.drop()
    return SqlStore(_WritingLink(engine), lambda: _PostgresLink(engine), _OPENINGS, readers=readers)


class _PostgresLink:
    """A connection. A task of its own does what it is given, so that a cancelled caller does not cut it short.

    The task ends with the connection. What it does runs in one greenlet, where SQLAlchemy's calls wait for the driver:
    to make a greenlet for each trip costs more than a statement.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._jobs: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._more: asyncio.Future[None]
        """What the task waits for when it has done all."""
        self._connection: Connection | None = None
        self._driver: Driver

    async def run(self, work: Callable[[Connection], T], *, first: Sequence[str] = (), opens: bool = False) -> T:
        """Do it, as `Link.run` tells."""
        return await self._give(lambda: self._do(work, first, opens))

    def finish(self) -> None:
        """Roll back what is open."""
        self._give(self._roll_back)

    async def drop(self) -> None:
        """Close the connection."""
        await self._give(self._discard)

    def _give(self, job: Callable[[], T]) -> asyncio.Future[T]:
        """Do the job after those given before; first come first served."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._jobs.append((job, future))
        if self._task is None or self._task.done():
            self._task = loop.create_task(greenlet_spawn(self._serve))
            self._more = loop.create_future()
        elif not self._more.done():
            self._more.set_result(None)
        return future

    def _serve(self) -> None:
        while self._jobs or self._connection is not None:
            if not self._jobs:
                await_(self._more)
                self._more = asyncio.get_running_loop().create_future()
                continue
            job, future = self._jobs.popleft()
            try:
                outcome = job()
            except Exception as error:  # noqa: BLE001 - it is raised again where the job is awaited
                if not future.done():  # it is when its caller was cancelled
                    future.set_exception(error)
            except BaseException:
                future.cancel()
                raise
            else:
                if not future.done():
                    future.set_result(outcome)

    def _do(self, work: Callable[[Connection], T], first: Sequence[str], opens: bool) -> T:
        with wrapped(_NAME, *DRIVER_ERRORS):
            if opens and first == _OPENINGS.read:
                return self._read(work, *first)
            if opens:
                return work(self._begin("; ".join(first)))
            connection = self._in_transaction()
            if first:
                tag = self._send("; ".join(first))
                if first[-1] == "COMMIT" and tag != "COMMIT":
                    raise StorageUnavailable(f"{_NAME} has rolled the transaction back")
            return work(connection)

    def _send(self, statements: str) -> str:
        return await_(self._driver.execute(statements))

    def _read(self, work: Callable[[Connection], T], opening: str) -> T:
        """Do work in a transaction that its first statement opens, in one trip."""
        for again in (True, False):
            connection = self._opened()
            direct: Direct = connection.info[DIRECT]
            direct.opening = opening
            try:
                done = work(connection)
                direct.begin()
            except (*DRIVER_ERRORS, OSError):
                if not (again and self._driver.is_closed()):
                    raise
                # As below; and to read again is safe.
            else:
                return done
        raise AssertionError

    def _begin(self, statements: str) -> Connection:
        connection = self._opened()
        try:
            self._send(statements)
        except (*DRIVER_ERRORS, OSError):
            if not self._driver.is_closed():
                raise
            # The server was restarted while we did not look. Nothing was done yet, so a second try is safe.
            connection = self._opened()
            self._send(statements)
        return connection

    def _opened(self) -> Connection:
        """Return the connection, outside of a transaction; a new one if there is none or it was lost."""
        if self._connection is not None and self._is_lost(self._connection):
            self._discard()
        if self._connection is None:
            self._connection, self._driver = self._connected()
            direct = self._connection.info[DIRECT] = Direct(self._driver)
            self._connection.info[TOGETHER] = direct.together
        elif self._driver.is_in_transaction():
            self._send("ROLLBACK")
        return self._connection

    def _connected(self) -> tuple[Connection, Driver]:
        connection = self._engine.connect()
        driver = connection.connection.driver_connection
        if driver is None:
            raise StorageUnavailable(f"{_NAME} closed the connection at once")
        return connection, cast("Driver", driver)

    def _is_lost(self, connection: Connection) -> bool:
        return connection.invalidated or self._driver.is_closed()

    def _in_transaction(self) -> Connection:
        connection = self._connection
        if connection is None or connection.invalidated or not self._driver.is_in_transaction():
            raise StorageUnavailable(f"{_NAME} has rolled the transaction back")
        return connection

    def _roll_back(self) -> None:
        if self._connection is None or not self._driver.is_in_transaction():
            return
        try:
            self._send("ROLLBACK")
        except (*DRIVER_ERRORS, OSError):
            self._discard()  # the server rolls back what it no longer hears of

    def _discard(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.invalidate()
            connection.close()


class _WritingLink(_PostgresLink):
    """The connection that writes, and one beside it that syncs: they come and go together."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._syncing: tuple[Connection, Driver] | None = None
        self._unsynced: set[Driver] = set()
        """For each connection with commits that nobody has asked the disk for, the one beside it.

        A server that has died has lost both. So a sync that ends well was one of the server that has the commits.
        """

    async def run(self, work: Callable[[Connection], T], *, first: Sequence[str] = (), opens: bool = False) -> T:
        """Do it, as `Link.run` tells."""
        syncing = self._syncing
        done = await super().run(work, first=first, opens=opens)
        if syncing is not None and "COMMIT" in first:
            self._unsynced.add(syncing[1])
        return done

    async def sync(self) -> None:
        """Return when the commits are on the disk, as `WritingLink.sync` tells."""
        unsynced, self._unsynced = self._unsynced, set()
        with wrapped(_NAME, *DRIVER_ERRORS):
            for driver in unsynced:
                await driver.execute(_SYNC)

    def check(self) -> None:
        """Return: a new connection is well again."""

    def _connected(self) -> tuple[Connection, Driver]:
        connection, driver = super()._connected()
        try:
            self._syncing = super()._connected()
        except BaseException:
            connection.invalidate()
            connection.close()
            raise
        return connection, driver

    def _is_lost(self, connection: Connection) -> bool:
        return super()._is_lost(connection) or (self._syncing is not None and self._syncing[1].is_closed())

    def _discard(self) -> None:
        super()._discard()
        syncing, self._syncing = self._syncing, None
        if syncing is not None:
            syncing[0].invalidate()
            syncing[0].close()


def _open(connection: Connection, *_: object) -> None:
    """Open the transaction before a statement that goes through SQLAlchemy."""
    direct: Direct | None = connection.info.get(DIRECT)
    if direct is not None:
        direct.begin()


def _to_json(value: object) -> str:
    return orjson.dumps(value).decode()
