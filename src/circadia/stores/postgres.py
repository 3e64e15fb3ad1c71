"""The PostgreSQL store: asyncpg, and advisory locks that keep writers of the same things apart."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar, cast

import asyncpg
import orjson
from sqlalchemy import Connection, Engine, NullPool
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.util import await_, greenlet_spawn

from circadia.errors import CircadiaError, StartError, StorageUnavailable
from circadia.stores.asyncpg_connection import POSTGRES_ERRORS, AsyncpgConnection, AsyncpgDriver
from circadia.stores.sql.driver_errors import is_refusal, wrap_driver_errors
from circadia.stores.sql.link import OpeningStatements, Work
from circadia.stores.sql.link_pool import LinkPool
from circadia.stores.sql.online_migration import find_index_changes, migrate_online
from circadia.stores.sql.pooled_writer import LOCK_SECONDS, STANDSTILL_SECONDS, PooledWriter
from circadia.stores.sql.postgres_revision import POOLER_TOO_OLD, is_lost_statement
from circadia.stores.sql.statement import BATCH_EXECUTOR, DRIVER_CONNECTION
from circadia.stores.sql_store import OPERATOR_READ_SECONDS, OPERATOR_READERS, ReadPools, SqlStore

T = TypeVar("T")

_NAME: Final = "PostgreSQL"
_MIGRATION_NAME: Final = "circadia migration"
"""Such a connection does not count as that of a server."""
_OPENINGS: Final = OpeningStatements(
    # Settings travel with BEGIN, not as parameters of the connection, which a pooler between would refuse or mix up.
    write=(
        "BEGIN",
        # The last one: a process that stands still must not block other writers.
        f"SELECT set_config('synchronous_commit', 'on', true), set_config('lock_timeout', '{LOCK_SECONDS}s', true), "
        f"set_config('idle_in_transaction_session_timeout', '{STANDSTILL_SECONDS}s', true)",
    ),
    read=(
        "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        "SET LOCAL idle_in_transaction_session_timeout = '10s'",
        "SET LOCAL jit = off",
    ),
)
_CONNECT_SECONDS: Final = 5.0
_COMMAND_SECONDS: Final = 30.0


def create_postgres_engine(
    url: str, *, command_seconds: float | None = _COMMAND_SECONDS, name: str = "circadia"
) -> AsyncEngine:
    """Return an engine whose connections begin and commit themselves; a statement may take `command_seconds`.

    PostgreSQL shows the connections under `name`.
    """
    return create_async_engine(
        "postgresql+asyncpg://",
        connect_args={
            "dsn": url,
            "timeout": _CONNECT_SECONDS,
            "command_timeout": command_seconds,
            "server_settings": {"application_name": name},
        },
        poolclass=NullPool,
        isolation_level="AUTOCOMMIT",
        json_serializer=_to_json,
        json_deserializer=orjson.loads,
    )


async def open_postgres(
    url: str, *, readers: int = 4, writers: int = 8, operator_seconds: float = OPERATOR_READ_SECONDS
) -> SqlStore:
    """Migrate the database and return its store; `url` is a libpq URL.

    `readers` and `writers` are the most connections for reading and for writing. A statement for an operator may take
    `operator_seconds`.

    Raises:
        StartError: the database refuses the connection, or cannot be migrated (see `migrate_online`).
        StorageUnavailable: the database cannot be reached, which may pass.
    """
    engine = create_postgres_engine(url).sync_engine
    migrating = create_postgres_engine(url, command_seconds=None, name=_MIGRATION_NAME).sync_engine
    try:
        facts = await migrate_online(lambda: _PostgresLink(migrating))
    except StartError:
        raise
    except (DBAPIError, asyncpg.PostgresError) as error:
        if not is_lost_statement(error):
            raise
        raise StartError(POOLER_TOO_OLD) from error
    except (CircadiaError, ValueError) as error:  # a ValueError is a malformed URL, which may hold a password
        reason = error.message if isinstance(error, CircadiaError) else "its URL is malformed"
        is_away = isinstance(error, StorageUnavailable) and not is_refusal(error)
        kind = StorageUnavailable if is_away else StartError
        raise kind(f"cannot open the {_NAME} database: {reason}") from None

    def pool(size: int) -> LinkPool:
        return LinkPool(lambda: _PostgresLink(engine), size=size)

    pools = ReadPools(calls=pool(readers), operators=pool(OPERATOR_READERS), probes=pool(1))
    limit = f"SET LOCAL statement_timeout = {round(operator_seconds * 1000)}"
    limited = replace(_OPENINGS, read=(*_OPENINGS.read, limit))
    return SqlStore(PooledWriter(pool(writers), _OPENINGS), pools, _OPENINGS, facts, limited=limited)


async def list_index_changes(url: str) -> Sequence[str]:
    """Return the names of the indexes that a migration has yet to build or drop.

    Raises:
        StorageUnavailable: the database does not answer.
    """
    link = _PostgresLink(create_postgres_engine(url, name=_MIGRATION_NAME).sync_engine)
    try:
        return [change.name for change in await link.run(find_index_changes, opens=True)]
    finally:
        await link.drop()


class _PostgresLink:
    """A connection. Its own task runs the work, so that a cancelled caller does not interrupt it.

    The task ends with the connection. It runs in one greenlet, where SQLAlchemy's calls wait for the driver: creating a
    greenlet per trip costs more than a statement.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._jobs: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._more: asyncio.Future[None]
        """Awaited by the task when it is idle."""
        self._connection: Connection | None = None
        self._driver: AsyncpgDriver

    async def run(
        self, work: Work[T], *, first: Sequence[str] = (), opens: bool = False, short: bool | None = None
    ) -> T:
        return await self._submit(lambda: self._run_work(work, first, opens))

    def roll_back(self) -> None:
        self._submit(self._roll_back)

    async def drop(self) -> None:
        await self._submit(self._discard)

    def _submit(self, job: Callable[[], T]) -> asyncio.Future[T]:
        """Queue a job; jobs run in order."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._jobs.append((job, future))
        if self._task is None or self._task.done():
            self._task = loop.create_task(greenlet_spawn(self._run_jobs))
            self._more = loop.create_future()
        elif not self._more.done():
            self._more.set_result(None)
        return future

    def _run_jobs(self) -> None:
        while self._jobs or self._connection is not None:
            if not self._jobs:
                await_(self._more)
                self._more = asyncio.get_running_loop().create_future()
                continue
            job, future = self._jobs.popleft()
            try:
                outcome = job()
            except Exception as error:  # noqa: BLE001 - raised again where the job is awaited
                if not future.done():  # its caller was cancelled
                    future.set_exception(error)
            except BaseException:
                future.cancel()
                raise
            else:
                if not future.done():
                    future.set_result(outcome)

    def _run_work(self, work: Work[T], first: Sequence[str], opens: bool) -> T:
        with wrap_driver_errors(_NAME, *POSTGRES_ERRORS):
            if opens:
                if not first:
                    return self._run_first(work)
                self._run_first(lambda _: self._send("; ".join(first)))
                return work(self._in_transaction())
            connection = self._in_transaction()
            if first:
                tag = self._send("; ".join(first))
                if first[-1] == "COMMIT" and tag != "COMMIT":
                    raise StorageUnavailable(f"{_NAME} has rolled the transaction back")
            return work(connection)

    def _send(self, statements: str) -> str:
        return await_(self._driver.execute(statements))

    def _run_first(self, act: Callable[[Connection], T]) -> T:
        """Run the first statement of a block, or a read of one statement."""
        connection = self._ensure_open()
        try:
            return act(connection)
        except (*POSTGRES_ERRORS, OSError) as error:
            # asyncpg refuses to use a connection that the server is about to close.
            if not self._driver.is_closed() and not isinstance(error, asyncpg.InternalClientError):
                raise
            # The server ended the idle connection. Nothing was done yet, so a second try is safe.
            self._discard()
            return act(self._ensure_open())

    def _ensure_open(self) -> Connection:
        """Return the connection outside of a transaction, reconnecting if there is none or it was lost."""
        if self._connection is not None and self._is_lost(self._connection):
            self._discard()
        if self._connection is None:
            self._connection, self._driver = self._connect()
            direct = self._connection.info[DRIVER_CONNECTION] = AsyncpgConnection(self._driver)
            self._connection.info[BATCH_EXECUTOR] = direct.execute_batch
        elif self._driver.is_in_transaction():
            self._send("ROLLBACK")
        return self._connection

    def _connect(self) -> tuple[Connection, AsyncpgDriver]:
        connection = self._engine.connect()
        driver = connection.connection.driver_connection
        if driver is None:
            raise StorageUnavailable(f"{_NAME} closed the connection at once")
        return connection, cast("AsyncpgDriver", driver)

    def _is_lost(self, connection: Connection) -> bool:
        return connection.invalidated or self._driver.is_closed()

    def _is_in_transaction(self, connection: Connection) -> bool:
        return not self._is_lost(connection) and self._driver.is_in_transaction()

    def _in_transaction(self) -> Connection:
        connection = self._connection
        if connection is None or not self._is_in_transaction(connection):
            raise StorageUnavailable(f"{_NAME} has rolled the transaction back")
        return connection

    def _roll_back(self) -> None:
        if self._connection is None or not self._is_in_transaction(self._connection):
            return
        try:
            self._send("ROLLBACK")
        except (*POSTGRES_ERRORS, OSError):
            self._discard()  # the server rolls back when the connection ends

    def _discard(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.invalidate()
            connection.close()


def _to_json(value: object) -> str:
    return orjson.dumps(value).decode()
