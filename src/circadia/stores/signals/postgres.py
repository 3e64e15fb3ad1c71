"""Signals by PostgreSQL's NOTIFY, on a connection of their own and never in a writer's transaction."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

import asyncpg

from circadia.stores.signals.remote import CHANNEL
from circadia.stores.sql.driver_errors import build_unavailable_error

_ERRORS: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, ValueError)
_SECONDS: Final = 5.0
_NOTIFY: Final = f"SELECT pg_notify('{CHANNEL}', payload) FROM unnest($1::text[]) AS payload"  # noqa: S608 - a constant


class NotifyCarrier:
    """Needs a direct connection: a pooler between does not pass notifications on."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: Any = None
        self._closed: asyncio.Future[None]

    async def connect(self, receive: Callable[[bytes], None]) -> None:
        await self.close()
        closed = self._closed = asyncio.get_running_loop().create_future()

        def on_closed(_: object) -> None:
            if not closed.done():
                closed.set_result(None)

        def on_notification(connection: Any, sender: int, _: str, payload: object) -> None:
            if sender != connection.get_server_pid():
                receive(str(payload).encode())

        try:
            connection = self._connection = await asyncpg.connect(self._url, timeout=_SECONDS, command_timeout=_SECONDS)
            connection.add_termination_listener(on_closed)
            # A lost signal costs a second: it need not wait for the disk.
            await connection.execute("SET application_name = 'circadia signals'; SET synchronous_commit = off")
            await connection.add_listener(CHANNEL, on_notification)
        except (*_ERRORS, TimeoutError) as error:
            raise build_unavailable_error("PostgreSQL", error) from error

    async def send(self, payloads: Sequence[bytes]) -> None:
        try:
            await self._connection.execute(_NOTIFY, [payload.decode() for payload in payloads])
        except (*_ERRORS, TimeoutError) as error:
            raise build_unavailable_error("PostgreSQL", error) from error

    async def wait_closed(self) -> None:
        await asyncio.shield(self._closed)

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()
