"""Writes the result of a job until it is stored, or gives it up."""

import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from circadia.clock import Clock
from circadia.errors import InvalidRequest, StorageUnavailable

T = TypeVar("T")

_logger = logging.getLogger(__name__)

RETRY_SECONDS: Final = 1.0
"""Pause before a result is written again after a database failure."""
MOST_FAILURES: Final = 5
"""Tries to write a result at a database that answers; one is enough if it cannot store a value."""
UNSTORABLE: Final = "its result cannot be stored; see the log"


async def write_result(
    clock: Clock,
    name: str,
    write: Callable[[], Awaitable[T]],
    fail: Callable[[], Awaitable[T]],
    *,
    is_last_try: Callable[[], bool] = lambda: False,
) -> T | None:
    """Call `write` until it succeeds; return its value, or None if it was not written.

    A database that is away is waited for. A result that cannot be stored, or fails again and again though the database
    answers, is given up by `fail`, which ends the job as failed: one that never ends would block its agent or bank.
    """
    failures, has_given_up = 0, False
    while True:
        try:
            return await write()
        except StorageUnavailable as error:
            _logger.warning("the result of %s is not written yet: %s", name, error)
        except Exception as error:
            _logger.exception("the result of %s is not written", name)
            failures += MOST_FAILURES if isinstance(error, InvalidRequest) else 1
        if is_last_try():
            return None
        if failures >= MOST_FAILURES:
            if has_given_up:
                return None
            _logger.error("the result of %s is given up; the job fails", name)
            write, failures, has_given_up = fail, 0, True
            continue
        await clock.sleep(RETRY_SECONDS)
