"""Runs a coroutine in a thread with an event loop of its own, for work that waits for disks and other programs."""

import asyncio
from collections.abc import Coroutine
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

    running = asyncio.ensure_future(asyncio.to_thread(run))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        loop.call_soon_threadsafe(task.cancel)
        await asyncio.wait([running])
        raise
