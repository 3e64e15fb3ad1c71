"""Runs one request of a door: ends it when its caller is gone, and tells each error in the way that is left."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.types import Receive, Scope

from circadia.errors import CircadiaError, Ended, UpstreamFailed
from circadia.gateway.bodies import CallerGone
from circadia.gateway.reply import Broken, Phase, Reply

_logger = logging.getLogger(__name__)


class Departure:
    """Tells a request that its caller has hung up. The HTTP server puts one into the scope, under `DEPARTURE`."""

    __slots__ = ("_act", "_gone")

    def __init__(self) -> None:
        self._gone = False
        self._act: Callable[[], None] | None = None

    def tell(self) -> None:
        """Say that the caller is gone."""
        self._gone = True
        if self._act is not None:
            self._act()

    def when(self, act: Callable[[], None] | None) -> None:
        """Call `act` when the caller goes, or now if it is gone; none ends that."""
        self._act = act
        if act is not None and self._gone:
            act()


DEPARTURE: Final = "circadia.departure"
"""Key of the ASGI scope."""


async def watched(scope: Scope, receive: Receive, reply: Reply, work: Awaitable[None]) -> None:
    """Do the work; cancel it at once if the caller hangs up.

    Under a server that knows no `Departure`, a task waits for `http.disconnect`, which is the same but dearer.

    Raises:
        CallerGone: the caller hung up, and the work has ended.
    """
    task = asyncio.current_task()
    assert task is not None
    gone = False

    def leave() -> None:
        nonlocal gone
        if reply.phase is not Phase.DONE:
            gone = True
            task.cancel()

    departure: Departure | None = scope.get(DEPARTURE)
    watcher: asyncio.Task[None] | None = None
    if departure is None:
        watcher = asyncio.create_task(_until_gone(receive, leave))
    else:
        departure.when(leave)
    try:
        await work
    except asyncio.CancelledError:
        if not gone:
            raise
        task.uncancel()
        raise CallerGone from None
    finally:
        if departure is not None:
            departure.when(None)
        if watcher is not None:
            watcher.cancel()


async def _until_gone(receive: Receive, leave: Callable[[], None]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    leave()


async def told(reply: Reply, work: Awaitable[None]) -> None:
    """Do the work; tell the caller of an error, foreseen or not, in the way that the phase allows.

    Raises:
        Broken: nothing can be told any more; the server must break the connection.
    """
    try:
        await work
    except CallerGone:
        return
    except CircadiaError as error:
        await reply.refuse(error)
    except Broken:
        raise
    except asyncio.CancelledError:  # not the caller: the server's time to stop is over, and with it this task
        await reply.refuse(Ended("the server has stopped before the answer was there; send it again"))
    except Exception as error:  # the boundary of a door: whatever fails, its caller gets an answer
        _logger.exception("a door failed")
        failed = UpstreamFailed("the gateway failed on this call; the server's log says why")
        failed.__cause__ = error
        await reply.refuse(failed)
