"""Counts tokens that match nothing, and limits the attempts of one address."""

from contextvars import ContextVar
from typing import Final

from circadia.bounded_dict import BoundedDict
from circadia.clock import Clock
from circadia.errors import LimitReached

CALLER: Final[ContextVar[str]] = ContextVar("caller", default="")
"""Address of the current request's caller; empty if unknown, as on a socket in the file system."""
_WINDOW_SECONDS: Final = 60.0
_ADDRESSES: Final = 10_000
"""Addresses to remember, about 200 bytes each; the oldest are dropped."""


class FailedTokens:
    """Failed tokens by address. A valid token is never refused for the failures of others."""

    def __init__(self, clock: Clock, most: int | None) -> None:
        """Allow an address `most` failed tokens a minute; None is no limit."""
        self._clock = clock
        self._most = most
        self._recent: BoundedDict[str, tuple[float, int]] = BoundedDict(_ADDRESSES)
        self.total = 0

    def add(self) -> None:
        """Count a failed token of the current request. Raises LimitReached if its address has tried too many."""
        self.total += 1
        now, caller = self._clock.monotonic(), CALLER.get()
        began, count = self._recent.get(caller, (now, 0))
        if now - began >= _WINDOW_SECONDS:
            began, count = now, 0
        self._recent[caller] = began, count + 1
        if self._most is not None and count >= self._most:
            wait = began + _WINDOW_SECONDS - now
            message = f"too many invalid tokens from this address; check the token, and wait {wait:.0f} s"
            raise LimitReached(message, retry_after_seconds=wait)
