"""Runs one request of a door: ends it when its caller is gone, and tells each error in the way that is left."""

import asyncio
import logging
from collections.abc import Awaitable
from typing import Final

from starlette.types import Receive

from circadia.errors import CircadiaError, Ended, UpstreamFailed
from circadia.gateway.bodies import CallerGone
from circadia.gateway.reply import Broken, Phase, Reply

_logger = logging.getLogger(__name__)

WATCH_AFTER_SECONDS: Final = 0.02
"""A call that is over sooner is not watched: by then nothing could be saved, and a watcher costs a task."""


async def watched(receive: Receive, reply: Reply, work: Awaitable[None]) -> None:
    """Do the work; cancel it at once if the caller hangs up.

    Raises:
        CallerGone: the caller hung up, and the work has ended.
    """
    task = asyncio.current_task()
    assert task is not None
    gone = False

    async def watch() -> None:
        nonlocal gone
        while (await receive())["type"] != "http.disconnect":
            pass
        if reply.phase is not Phase.DONE:
            gone = True
            task.cancel()

    watcher: asyncio.Task[None] | None = None

    def begin() -> None:
        nonlocal watcher
        watcher = asyncio.create_task(watch())

    starting = asyncio.get_running_loop().call_later(WATCH_AFTER_SECONDS, begin)
    try:
        await work
    except asyncio.CancelledError:
        if not gone:
            raise
        task.uncancel()
        raise CallerGone from None
    finally:
        starting.cancel()
        if watcher is not None:
            watcher.cancel()


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
