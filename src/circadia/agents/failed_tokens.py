"""Counts tokens that open nothing, and limits how many one address may try."""

from contextvars import ContextVar
from typing import Final

from circadia.bounded_dict import BoundedDict
from circadia.clock import Clock
from circadia.errors import LimitReached

CALLER: Final[ContextVar[str]] = ContextVar("caller", default="")
"""The address that the present request comes from; empty where it is not known, as on a socket in the file system."""
_WINDOW_SECONDS: Final = 60.0
_ADDRESSES: Final = 10_000
"""Addresses that are remembered, about 200 bytes each; of more the oldest is forgotten."""


class FailedTokens:
    """Tokens that opened nothing, by address. A token that opens something is never refused for others' failures."""

    def __init__(self, clock: Clock, most: int | None) -> None:
        """`most` is how many an address may try in a minute; none is no limit."""
        self._clock = clock
        self._most = most
        self._recent: BoundedDict[str, tuple[float, int]] = BoundedDict(_ADDRESSES)
        self.total = 0

    def add(self) -> None:
        """Count one of the present request.

        Raises:
            LimitReached: its address has tried too many.
        """
        self.total += 1
        now, caller = self._clock.monotonic(), CALLER.get()
        began, count = self._recent.get(caller, (now, 0))
        if now - began >= _WINDOW_SECONDS:
            began, count = now, 0
        self._recent[caller] = began, count + 1
        if self._most is not None and count >= self._most:
            wait = began + _WINDOW_SECONDS - now
            told = f"too many tokens from here open nothing; check the token, and wait {wait:.0f} s"
            raise LimitReached(told, retry_after_seconds=wait)
