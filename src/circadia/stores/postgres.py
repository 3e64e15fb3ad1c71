"""The store on PostgreSQL: asyncpg, and one lock that puts the writers of all processes in a row."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, Protocol, TypeVar

import asyncpg
import orjson
from sqlalchemy import Connection, NullPool
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from circadia.errors import CircadiaError, StartError, StorageUnavailable
from circadia.stores.sql.database import SqlStore
from circadia.stores.sql.driver_errors import wrapped
from circadia.stores.sql.group_commit import GROUP_SECONDS
from circadia.stores.sql.link import Openings, nothing
from circadia.stores.sql.migrate import migrate

T = TypeVar("T")

_NAME: Final = "PostgreSQL"
_OPENINGS: Final = Openings(
    # The lock is let go at the end of the transaction. So what a writer reads stays true until it commits, numbers
    # ascend in the order of commits, and no two writers wait for each other's rows.
    write=("BEGIN", "SELECT pg_advisory_xact_lock(4114)"),
    read=("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",),
)
_DRIVER_ERRORS: Final = (asyncpg.PostgresError, asyncpg.InterfaceError)
_CONNECT_SECONDS: Final = 5.0
_COMMAND_SECONDS: Final = 30.0
_SETTINGS: Final = {
    "application_name": "circadia",
    "synchronous_commit": "on",  # a commit returns when it is on the disk
    "lock_timeout": "15s",
    "idle_in_transaction_session_timeout": "10s",  # a process that hangs does not keep the others from writing
    "jit": "off",
}


async def open_postgres(url: str, *, readers: int = 4, group_seconds: float = GROUP_SECONDS) -> SqlStore:
    """Bring the database to the present schema and return the store on it; `url` is as libpq has it.

    `readers` is the number of connections that read, `group_seconds` the age at which a group of writes is committed.

    Raises:
        StartError: It cannot be reached, or belongs to a newer version.
    """
    engine = create_async_engine(
        "postgresql+asyncpg://",
        connect_args={
            "dsn": url,
            "timeout": _CONNECT_SECONDS,
            "command_timeout": _COMMAND_SECONDS,
            "server_settings": _SETTINGS,
        },
        poolclass=NullPool,
        isolation_level="AUTOCOMMIT",  # the links begin and commit themselves
        json_serializer=_to_json,
        json_deserializer=orjson.loads,
    )
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
    return SqlStore(lambda writes: _PostgresLink(engine), _OPENINGS, readers=readers, group_seconds=group_seconds)


class _Driver(Protocol):
    """What we ask of asyncpg's connection, which has no types of its own."""

    async def execute(self, query: str) -> str: ...

    def is_closed(self) -> bool: ...

    def is_in_transaction(self) -> bool: ...


class _PostgresLink:
    """A connection. What it is given runs in tasks of its own, so that a cancelled caller does not cut it short."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._order = asyncio.Lock()  # one at a time on the connection, first come first served
        self._tasks: set[asyncio.Task[Any]] = set()
        self._connection: AsyncConnection | None = None
        self._driver: _Driver

    async def run(self, work: Callable[[Connection], T], *, first: Sequence[str] = (), opens: bool = False) -> T:
        """Do it, as `Link.run` tells."""
        return await asyncio.shield(self._start(self._do(work, first, opens)))

    def finish(self) -> None:
        """Roll back what is open."""
        self._start(self._roll_back())

    async def drop(self) -> None:
        """Close the connection."""
        await asyncio.shield(self._start(self._close()))

    def _start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _do(self, work: Callable[[Connection], T], first: Sequence[str], opens: bool) -> T:
        async with self._order:
            with wrapped(_NAME, *_DRIVER_ERRORS):
                if opens:
                    connection = await self._begin("; ".join(first))
                else:
                    connection = self._in_transaction()
                    if first:
                        tag = await self._driver.execute("; ".join(first))
                        if first[-1] == "COMMIT" and tag != "COMMIT":
                            raise StorageUnavailable(f"{_NAME} has rolled the transaction back")
                return await connection.run_sync(work)

    async def _begin(self, statements: str) -> AsyncConnection:
        connection = await self._opened()
        try:
            await self._driver.execute(statements)
        except (*_DRIVER_ERRORS, OSError):
            if not self._driver.is_closed():
                raise
            # The server was restarted while we did not look. Nothing was done yet, so a second try is safe.
            connection = await self._opened()
            await self._driver.execute(statements)
        return connection

    async def _opened(self) -> AsyncConnection:
        """Return the connection, outside of a transaction; a new one if there is none or it was lost."""
        if self._connection is not None and (self._driver.is_closed() or self._connection.invalidated):
            await self._discard()
        if self._connection is None:
            connection = await self._engine.connect()
            driver = (await connection.get_raw_connection()).driver_connection
            if driver is None:
                raise StorageUnavailable(f"{_NAME} closed the connection at once")
            self._driver = driver
            self._connection = connection
        elif self._driver.is_in_transaction():
            await self._driver.execute("ROLLBACK")
        return self._connection

    def _in_transaction(self) -> AsyncConnection:
        connection = self._connection
        if connection is None or connection.invalidated or not self._driver.is_in_transaction():
            raise StorageUnavailable(f"{_NAME} has rolled the transaction back")
        return connection

    async def _roll_back(self) -> None:
        async with self._order:
            if self._connection is None or not self._driver.is_in_transaction():
                return
            try:
                await self._driver.execute("ROLLBACK")
            except (*_DRIVER_ERRORS, OSError):
                await self._discard()  # the server rolls back what it no longer hears of

    async def _close(self) -> None:
        async with self._order:
            await self._discard()

    async def _discard(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.invalidate()
            await connection.close()


def _to_json(value: object) -> str:
    return orjson.dumps(value).decode()
