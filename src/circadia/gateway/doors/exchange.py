"""Runs one request of a door: ends it when its caller is gone, and tells each error in the way that is left."""

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any, Final

from starlette.types import Receive, Scope

from circadia.errors import CircadiaError, TargetGone, UpstreamFailed
from circadia.gateway.hold.bodies import CallerGone
from circadia.gateway.hold.reply import Phase, Reply, ReplyBroken

_logger = logging.getLogger(__name__)


class Disconnect:
    """Ends a request whose caller has hung up. The HTTP server puts one into the scope, under `DISCONNECT_KEY`."""

    __slots__ = ("_gone", "_reply", "_task", "ended")

    def __init__(self) -> None:
        self._gone = False
        self._task: asyncio.Task[Any] | None = None
        self._reply: Reply | None = None
        self.ended = False
        """Whether it has cancelled the request."""

    def notify(self) -> None:
        """Say that the caller is gone."""
        self._gone = True
        if self._task is not None and self._reply is not None and self._reply.phase is not Phase.DONE:
            self.ended = True
            self._task.cancel()

    def watch(self, task: asyncio.Task[Any], reply: Reply) -> None:
        """Cancel `task` when the caller goes before its reply is done, or now if it is gone."""
        self._task, self._reply = task, reply
        if self._gone:
            self.notify()

    def forget(self) -> None:
        """Cancel nothing any more."""
        self._task = self._reply = None


DISCONNECT_KEY: Final = "circadia.departure"
"""Key of the ASGI scope."""


async def run_until_disconnect(scope: Scope, receive: Receive, reply: Reply, work: Awaitable[None]) -> None:
    """Do the work; cancel it at once if the caller hangs up.

    Under a server that knows no `Disconnect`, a task waits for `http.disconnect`, which is the same but dearer.

    Raises:
        CallerGone: the caller hung up, and the work has ended.
    """
    task = asyncio.current_task()
    assert task is not None
    departure: Disconnect | None = scope.get(DISCONNECT_KEY)
    watcher: asyncio.Task[None] | None = None
    if departure is None:
        departure = Disconnect()
        watcher = asyncio.create_task(_watch_for_disconnect(receive, departure))
    departure.watch(task, reply)
    try:
        await work
    except asyncio.CancelledError:
        if not departure.ended:
            raise
        task.uncancel()
        raise CallerGone from None
    finally:
        departure.forget()
        if watcher is not None:
            watcher.cancel()


async def _watch_for_disconnect(receive: Receive, departure: Disconnect) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    departure.notify()


async def send_error(reply: Reply, error: BaseException) -> None:
    """Tell the caller of what ended its request, foreseen or not, in the way that the phase allows.

    Called from the door's own `except`, since a wrapper would cost each held call a frame.

    Raises:
        ReplyBroken: nothing can be told any more; the server must break the connection.
    """
    if isinstance(error, CallerGone):
        return
    if isinstance(error, asyncio.CancelledError):  # not the caller: the server's time to stop is over, and this task's
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
