"""The store on PostgreSQL: asyncpg, and one lock that puts the writers of all processes in a row."""

import asyncio
import re
from collections import deque
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, Final, Protocol, TypeVar, cast

import asyncpg
import orjson
from sqlalchemy import Connection, Engine, NullPool
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.util import await_, greenlet_spawn

from circadia.errors import CircadiaError, StartError, StorageUnavailable
from circadia.stores.sql.database import SqlStore
from circadia.stores.sql.driver_errors import wrap_driver_errors
from circadia.stores.sql.link import OpeningStatements, do_nothing
from circadia.stores.sql.migrate import migrate
from circadia.stores.sql.statement import BATCH_EXECUTOR, DRIVER_CONNECTION

T = TypeVar("T")

_NAME: Final = "PostgreSQL"
_OPENINGS: Final = OpeningStatements(
    # The lock is let go at the end of the transaction. So what a writer reads stays true until it commits, numbers
    # ascend in the order of commits, and no two writers wait for each other's rows.
    # The commit does not wait for the disk, so that it lets the lock go at once; `_WritingLink.sync` waits.
    write=("BEGIN", "SET LOCAL synchronous_commit = off", "SELECT pg_advisory_xact_lock(4114)"),
    read=("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",),
)
_DRIVER_ERRORS: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
_CONNECT_SECONDS: Final = 5.0
_COMMAND_SECONDS: Final = 30.0
_SYNC: Final = "SELECT pg_logical_emit_message(true, 'circadia', '')"
"""The least that a transaction can write: its commit takes all commits before it to the disk, and is no row."""
_FIRST_RUNS: Final = 400
"""Statements that a connection runs until it has them planned anew; then four times as many, and so on."""
_FEW_ROWS: Final = 8
"""Rows of a statement that may be part of another: each number of rows makes another statement."""
_PLACE: Final = re.compile(r"\$(\d+)")
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
            "timeout": _CONNECT_SECONDS,
            "command_timeout": _COMMAND_SECONDS,
            "server_settings": _SETTINGS,
        },
        poolclass=NullPool,
        isolation_level="AUTOCOMMIT",  # the links begin and commit themselves
        json_serializer=_to_json,
        json_deserializer=orjson.loads,
    ).sync_engine
    link = _PostgresLink(engine)
    try:
        await link.run(migrate, first=_OPENINGS.write, opens=True)
        await link.run(do_nothing, first=("COMMIT",))
    except StartError:
        raise
    except (CircadiaError, ValueError) as error:  # a ValueError is a malformed URL; it may hold a password
        told = error.message if isinstance(error, CircadiaError) else "its URL is malformed"
        raise StartError(f"cannot open the {_NAME} database: {told}") from None
    finally:
        await link.drop()
    return SqlStore(_WritingLink(engine), lambda: _PostgresLink(engine), _OPENINGS, readers=readers)


class _Driver(Protocol):
    """What we ask of asyncpg's connection, which has no types of its own."""

    async def execute(self, query: str) -> str: ...

    async def prepare(self, query: str) -> "_PreparedStatement": ...

    def is_closed(self) -> bool: ...

    def is_in_transaction(self) -> bool: ...


class _PreparedStatement(Protocol):
    """What we ask of asyncpg's prepared statements."""

    async def fetch(self, *args: object) -> Sequence[Any]: ...

    async def executemany(self, args: Sequence[Sequence[object]]) -> None: ...

    def get_attributes(self) -> Sequence[Any]: ...

    def get_statusmsg(self) -> str: ...


class _PreparedCursor:
    """What a statement answered, as `Answer` tells."""

    def __init__(self, prepared: _PreparedStatement, rows: Sequence[Any]) -> None:
        self._prepared = prepared
        self._rows = rows

    @property
    def description(self) -> Sequence[tuple[str, int]]:
        """Name and type of each column."""
        return [(each.name, each.type.oid) for each in self._prepared.get_attributes()]

    @property
    def rowcount(self) -> int:
        """How many rows were changed; known until the statement runs again."""
        return int(self._prepared.get_statusmsg().rpartition(" ")[2])

    def fetchall(self) -> Sequence[Any]:
        """Return the rows."""
        return self._rows

    def fetchone(self) -> Any:
        """Return the first row, or none."""
        return self._rows[0] if self._rows else None


class _AsyncpgConnection:
    """Runs statements as asyncpg prepares them, without SQLAlchemy's cursors, which cost twice the statement."""

    def __init__(self, driver: _Driver) -> None:
        self._driver = driver
        self._prepared: dict[str, _PreparedStatement] = {}
        """By text. These are the statements of the program, so they are not too many."""
        self._joined: dict[tuple[tuple[str, int, int], ...], str] = {}
        """By the texts, and how many rows of how many values each has."""
        self._runs = 0
        self._runs_planned = _FIRST_RUNS

    def execute(self, text: str, values: Sequence[object]) -> _PreparedCursor:
        """Run a statement."""
        return await_(self._run(text, values, many=False))

    def executemany(self, text: str, values: Sequence[Sequence[object]]) -> _PreparedCursor:
        """Run a statement for each of the sequences of values."""
        return await_(self._run(text, values, many=True))

    def execute_batch(self, writes: Sequence[tuple[str, Sequence[Sequence[object]]]]) -> None:
        """Run statements, as `BatchExecutor` tells: those of few rows as the parts of one statement, in one trip."""
        for many, some in groupby(writes, lambda write: len(write[1]) > _FEW_ROWS):
            if not many:
                self._execute_in_one(list(some))
                continue
            for text, rows in some:
                self.executemany(text, rows)

    def _execute_in_one(self, few: Sequence[tuple[str, Sequence[Sequence[object]]]]) -> None:
        shape = tuple([(text, len(rows), len(rows[0])) for text, rows in few])
        joined = self._joined.get(shape)
        if joined is None:
            joined = self._joined[shape] = _join_statements(shape)
        self.execute(joined, [value for _, rows in few for row in rows for value in row])

    async def _run(self, text: str, values: Sequence[Any], *, many: bool) -> _PreparedCursor:
        self._runs += 1
        if self._runs >= self._runs_planned:
            # PostgreSQL keeps a statement's plan. One from when a table was small may be bad by now.
            self._runs_planned *= 4
            self._prepared.clear()
        prepared = self._prepared.get(text)
        if prepared is None:
            prepared = self._prepared[text] = await self._driver.prepare(text)
        try:
            if many:
                await prepared.executemany(values)
                return _PreparedCursor(prepared, ())
            return _PreparedCursor(prepared, await prepared.fetch(*values))
        except _DRIVER_ERRORS:
            # Perhaps the tables have changed since it was prepared: the next try prepares it anew.
            self._prepared.pop(text, None)
            raise


def _join_statements(writes: Sequence[tuple[str, int, int]]) -> str:
    """Return one statement for several; each has so many rows of so many values. The last is no part but the whole.

    A part sees no row of another. So one that returns its rows has its table's name: those behind it look there.
    """
    parts: list[tuple[str, str]] = []
    before = 0
    for text, rows, places in writes:
        head, values, row = text.partition(" VALUES ")
        row, returning, returned = row.partition(" RETURNING ")
        shifted = [_shift_placeholders(row if values else text, before + at * places) for at in range(rows)]
        before += rows * places
        if values:
            shifted = [f"{head}{values}{', '.join(shifted)}{returning}{returned}"]
        name = head.split()[2] if returning else f"part_{before}"
        parts += [(name if values else f"{name}_{at}", part) for at, part in enumerate(shifted)]
    *others, (_, last) = parts
    return f"WITH {', '.join(f'{name} AS ({part})' for name, part in others)} {last}" if others else last


def _shift_placeholders(text: str, by: int) -> str:
    """Return it with the places of its values so many further on."""
    return _PLACE.sub(lambda place: f"${int(place[1]) + by}", text)


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
        self._driver: _Driver

    async def run(self, work: Callable[[Connection], T], *, first: Sequence[str] = (), opens: bool = False) -> T:
        """Do it, as `Link.run` tells."""
        return await self._submit(lambda: self._run_work(work, first, opens))

    def roll_back(self) -> None:
        """Roll back what is open."""
        self._submit(self._roll_back)

    async def drop(self) -> None:
        """Close the connection."""
        await self._submit(self._discard)

    def _submit(self, job: Callable[[], T]) -> asyncio.Future[T]:
        """Do the job after those given before; first come first served."""
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
            except Exception as error:  # noqa: BLE001 - it is raised again where the job is awaited
                if not future.done():  # it is when its caller was cancelled
                    future.set_exception(error)
            except BaseException:
                future.cancel()
                raise
            else:
                if not future.done():
                    future.set_result(outcome)

    def _run_work(self, work: Callable[[Connection], T], first: Sequence[str], opens: bool) -> T:
        with wrap_driver_errors(_NAME, *_DRIVER_ERRORS):
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
        """Do what begins a block, or is all of it: a read of one statement."""
        connection = self._ensure_open()
        try:
            return act(connection)
        except (*_DRIVER_ERRORS, OSError):
            if not self._driver.is_closed():
                raise
            # The server was restarted while we did not look. Nothing was done yet, so a second try is safe.
            return act(self._ensure_open())

    def _ensure_open(self) -> Connection:
        """Return the connection, outside of a transaction; a new one if there is none or it was lost."""
        if self._connection is not None and self._is_lost(self._connection):
            self._discard()
        if self._connection is None:
            self._connection, self._driver = self._connect()
            direct = self._connection.info[DRIVER_CONNECTION] = _AsyncpgConnection(self._driver)
            self._connection.info[BATCH_EXECUTOR] = direct.execute_batch
        elif self._driver.is_in_transaction():
            self._send("ROLLBACK")
        return self._connection

    def _connect(self) -> tuple[Connection, _Driver]:
        connection = self._engine.connect()
        driver = connection.connection.driver_connection
        if driver is None:
            raise StorageUnavailable(f"{_NAME} closed the connection at once")
        return connection, cast("_Driver", driver)

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
        except (*_DRIVER_ERRORS, OSError):
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
        self._syncing: tuple[Connection, _Driver] | None = None
        self._unsynced: set[_Driver] = set()
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
        with wrap_driver_errors(_NAME, *_DRIVER_ERRORS):
            for driver in unsynced:
                await driver.execute(_SYNC)

    def check(self) -> None:
        """Return: a new connection is well again."""

    def _connect(self) -> tuple[Connection, _Driver]:
        connection, driver = super()._connect()
        try:
            self._syncing = super()._connect()
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


def _to_json(value: object) -> str:
    return orjson.dumps(value).decode()
