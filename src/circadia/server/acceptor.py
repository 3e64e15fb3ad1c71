"""Accepts connections while open files are left for them; further callers wait in the system's queue.

Event loops accept all that wait at once. Beyond the limit of open files they reset those connections, and no file is
left for the database, the providers or a probe.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from circadia.server.front import ConnectionLimit

_logger = logging.getLogger(__name__)

BACKLOG: Final = 4096
"""Connections that the system keeps waiting."""
AT_ONCE: Final = 64
"""Connections accepted in one step of the event loop."""
PAUSE_SECONDS: Final = 0.01
"""How long nothing is accepted while no file is left."""


class Acceptor:
    """Takes the place of an `asyncio.Server`, which cannot pause."""

    def __init__(self, bound: socket.socket, build: Callable[[], asyncio.Protocol], limit: ConnectionLimit) -> None:
        self._bound = bound
        self._build = build
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[None]] = set()
        self._is_closed = False
        bound.setblocking(False)
        bound.listen(BACKLOG)
        self._resume()

    def close(self) -> None:
        """Accept no more."""
        self._is_closed = True
        self._loop.remove_reader(self._bound)

    async def wait_closed(self) -> None:
        pass

    def _resume(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._bound, self._accept)

    def _pause(self) -> None:
        self._loop.remove_reader(self._bound)
        self._loop.call_later(PAUSE_SECONDS, self._resume)

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            if len(self._opening) + len(self._limit.connections) >= self._limit.most:
                self._pause()
                return
            try:
                connection, _address = self._bound.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # no file is left after all
                _logger.warning("no connection is accepted for a moment: %s", error.strerror)
                self._pause()
                return
            task = self._loop.create_task(self._open(connection))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _open(self, connection: socket.socket) -> None:
        with suppress(OSError):  # the caller is gone again
            await self._loop.connect_accepted_socket(self._build, connection)
