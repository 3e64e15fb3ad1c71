"""Signals by PostgreSQL's NOTIFY, on a connection of their own and never in a writer's transaction."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, cast

import asyncpg
from sqlalchemy import NullPool
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from circadia.stores.signals.remote import build_channel
from circadia.stores.sql.driver_errors import build_unavailable_error

_ERRORS: Final = (
    asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, DBAPIError, OSError, ValueError,
    TimeoutError,
)  # fmt: skip
_SECONDS: Final = 5.0
_NOTIFY: Final = "SELECT pg_notify(channel, payload) FROM unnest($1::text[], $2::text[]) AS signal (channel, payload)"


class _Driver(Protocol):
    """The part of asyncpg's untyped connection that is used here."""

    def get_server_pid(self) -> int: ...

    async def execute(self, query: str, *values: object) -> str: ...

    async def add_listener(self, channel: str, listener: Callable[[Any, int, str, object], None]) -> None: ...

    def add_termination_listener(self, listener: Callable[[object], None]) -> None: ...

    def terminate(self) -> None: ...


class NotifyCarrier:
    """Needs a direct connection: a pooler between does not pass notifications on."""

    def __init__(self, url: str, process: str) -> None:
        """`process` is this one's name, to which others may send."""
        self._channels = build_channel(process), build_channel()
        self._engine = create_async_engine(
            "postgresql+asyncpg://",
            connect_args={"dsn": url, "timeout": _SECONDS, "command_timeout": _SECONDS},
            poolclass=NullPool,
            isolation_level="AUTOCOMMIT",
        )
        self._connection: AsyncConnection | None = None
        self._driver: _Driver
        self._closed: asyncio.Future[None]

    async def connect(self, receive: Callable[[bytes], None]) -> None:
        await self.close()
        closed = self._closed = asyncio.get_running_loop().create_future()

        def on_closed(_: object) -> None:
            if not closed.done():
                closed.set_result(None)

        def on_notification(_: object, sender: int, __: str, payload: object) -> None:
            if sender != own:
                receive(str(payload).encode())

        try:
            self._connection = await self._engine.connect()
            raw = await self._connection.get_raw_connection()
            driver = self._driver = cast("_Driver", raw.driver_connection)
            own = driver.get_server_pid()
            driver.add_termination_listener(on_closed)
            # A lost signal costs a second: it need not wait for the disk.
            await driver.execute("SET application_name = 'circadia signals'; SET synchronous_commit = off")
            for channel in self._channels:
                await driver.add_listener(channel, on_notification)
        except _ERRORS as error:
            raise build_unavailable_error("PostgreSQL", error) from error

    async def send(self, payloads: Sequence[tuple[str, bytes]]) -> None:
        channels = [channel for channel, _ in payloads]
        try:
            await self._driver.execute(_NOTIFY, channels, [payload.decode() for _, payload in payloads])
        except _ERRORS as error:
            raise build_unavailable_error("PostgreSQL", error) from error

    async def wait_closed(self) -> None:
        await asyncio.shield(self._closed)

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._driver.terminate()
            await connection.invalidate()
            await connection.close()
