"""Work that a cancellation must not interrupt."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def run_shielded(work: Coroutine[Any, Any, T]) -> T:
    """Run `work`, which must bound itself, to its end even if the caller is cancelled; then raise CancelledError."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # retrieve it: the cancellation takes precedence
        raise cancelled
    return task.result()
