"""Whether a balancer may send calls to this process."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Final

from circadia.agents.database_contact import DatabaseContact
from circadia.clock import Clock
from circadia.errors import StorageUnavailable

ANSWER_SECONDS: Final = 5.0
"""A database that needs longer counts as away."""
GRACE_ANSWER_SECONDS: Final = 1.0
"""The same during the grace, which covers a slow answer too: a balancer must hear soon that the process lives."""


class Readiness:
    """What `/readyz` says. A gateway without its database is ready while it lets calls of awake agents pass."""

    def __init__(self, clock: Clock, ping: Callable[[], Awaitable[None]], contact: DatabaseContact | None) -> None:
        """`contact` is None for a process that can do nothing without its database."""
        self._clock = clock
        self._ping = ping
        self._contact = contact
        self._failing_since: float | None = None

    async def check(self) -> str:
        """Return why the process is ready. Raises StorageUnavailable if it is not."""
        seconds = ANSWER_SECONDS if self._contact is None else GRACE_ANSWER_SECONDS
        try:
            async with asyncio.timeout(seconds):
                await self._ping()
        except TimeoutError:
            return self._use_grace(
                StorageUnavailable(f"the database does not answer within {seconds:g} s; check whether it runs")
            )
        except StorageUnavailable as error:
            return self._use_grace(error)
        self._failing_since = None
        return "ready"

    def _use_grace(self, error: StorageUnavailable) -> str:
        message = without_address(error)
        now = self._clock.monotonic()
        self._failing_since = now if self._failing_since is None else self._failing_since
        # A full disk refuses writes for good, and is read all the same.
        if self._contact is None or not self._contact.allows_cache(failing_seconds=now - self._failing_since):
            raise StorageUnavailable(message)
        return f"ready: awake agents pass for a while; {message}"


def without_address(error: StorageUnavailable) -> str:
    """Return the message for callers without a token: the driver's words in brackets may name addresses."""
    return re.sub(r" \(.*\)", "", error.message, flags=re.DOTALL)
