"""Work that a cancellation must not tear in two."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def run_shielded(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end, however often the caller is cancelled meanwhile; it must bound itself.

    Raises:
        CancelledError: the caller was cancelled; raised only after the work has ended.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # marks it as seen: the cancellation outranks it
        raise cancelled
    return task.result()
