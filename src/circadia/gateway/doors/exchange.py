"""Runs one request of a door: ends it when the caller disconnects, and sends errors as the phase allows."""

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any, Final

from starlette.types import Receive, Scope

from circadia.errors import CircadiaError, TargetGone, UpstreamFailed
from circadia.gateway.hold.in_flight import CallerGone
from circadia.gateway.hold.reply import Phase, Reply, ReplyBroken

_logger = logging.getLogger(__name__)


class Disconnect:
    """Ends a request when its caller disconnects. The HTTP server puts one into the scope under `DISCONNECT_KEY`."""

    __slots__ = ("_gone", "_reply", "_task", "ended")

    def __init__(self) -> None:
        self._gone = False
        self._task: asyncio.Task[Any] | None = None
        self._reply: Reply | None = None
        self.ended = False

    def notify(self) -> None:
        self._gone = True
        if self._task is not None and self._reply is not None and self._reply.phase is not Phase.DONE:
            self.ended = True
            self._task.cancel()

    def watch(self, task: asyncio.Task[Any], reply: Reply) -> None:
        """Cancel `task` if the caller disconnects before the reply is done, or now if it already has."""
        self._task, self._reply = task, reply
        if self._gone:
            self.notify()

    def forget(self) -> None:
        self._task = self._reply = None


DISCONNECT_KEY: Final = "circadia.disconnect"


async def run_until_disconnect(scope: Scope, receive: Receive, reply: Reply, work: Awaitable[None]) -> None:
    """Do the work; cancel it at once if the caller disconnects.

    Servers that do not provide a `Disconnect` need a task that waits for `http.disconnect`, at a higher cost.

    Raises:
        CallerGone: the caller disconnected, and the work has ended.
    """
    task = asyncio.current_task()
    assert task is not None
    disconnect: Disconnect | None = scope.get(DISCONNECT_KEY)
    watcher: asyncio.Task[None] | None = None
    if disconnect is None:
        disconnect = Disconnect()
        watcher = asyncio.create_task(_watch_for_disconnect(receive, disconnect))
    disconnect.watch(task, reply)
    try:
        await work
    except asyncio.CancelledError:
        if not disconnect.ended:
            raise
        task.uncancel()
        raise CallerGone from None
    finally:
        disconnect.forget()
        if watcher is not None:
            watcher.cancel()


async def _watch_for_disconnect(receive: Receive, disconnect: Disconnect) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    disconnect.notify()


async def send_error(reply: Reply, error: BaseException) -> None:
    """Send the caller the error that ended its request, expected or not, as the phase allows.

    Called from the door's own `except`, since a wrapper would cost each held call a frame.

    Raises:
        ReplyBroken: nothing more can be sent; the server must break the connection.
    """
    if isinstance(error, CallerGone):
        return
    if isinstance(error, asyncio.CancelledError):  # not the caller: the server's shutdown time is over
        error = TargetGone("the server has stopped before the answer was there; send it again")
    if isinstance(error, CircadiaError):
        await reply.send_error(error)
        return
    if isinstance(error, ReplyBroken) or not isinstance(error, Exception):
        raise error
    _logger.error("a door failed", exc_info=error)
    failed = UpstreamFailed("the gateway failed on this call; the server's log says why")
    failed.__cause__ = error
    await reply.send_error(failed)
