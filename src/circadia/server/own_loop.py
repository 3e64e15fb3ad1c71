"""Runs a coroutine in a thread with an event loop of its own, for work that waits for disks and other programs."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


async def run_in_own_loop(work: Coroutine[Any, Any, T]) -> T:
    """Return what `work` returns; a cancellation of the caller cancels `work`, and waits for its end."""
    runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
    loop = runner.get_loop()
    task = loop.create_task(work)

    def run() -> T:
        with runner:
            return loop.run_until_complete(task)

    thread = ThreadPoolExecutor(1, "own-loop")  # the few threads of the server's loop are for short work
    running = asyncio.get_running_loop().run_in_executor(thread, run)
    thread.shutdown(wait=False)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        with suppress(RuntimeError):  # it has just ended
            loop.call_soon_threadsafe(task.cancel)
        await asyncio.wait([running])
        raise
