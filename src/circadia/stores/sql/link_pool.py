"""A pool of connections."""

import asyncio
from collections.abc import Callable
from typing import Final

from circadia.errors import StorageUnavailable
from circadia.stores.sql.link import Link

WAIT_SECONDS: Final = 30.0
"""Longest wait for a free connection."""


class LinkPool:
    """Lends connections, the last used first, since its caches are warm."""

    def __init__(self, connect: Callable[[], Link], *, size: int) -> None:
        """`size` is the most connections that are open at a time."""
        self.connect = connect
        self._size = size
        self._free = asyncio.Semaphore(size)
        self._idle: list[Link] = []
        self._closed = False

    async def borrow(self) -> Link:
        """Return a connection. Raises StorageUnavailable if none becomes free in time."""
        if self._closed:
            raise StorageUnavailable("the store is closed")
        if self._free.locked():
            try:
                async with asyncio.timeout(WAIT_SECONDS):
                    await self._free.acquire()
            except TimeoutError as error:
                raise StorageUnavailable(
                    f"all {self._size} database connections of this kind are busy", retry_after_seconds=1.0
                ) from error
        else:
            await self._free.acquire()
        return self._idle.pop() if self._idle else self.connect()

    def give_back(self, link: Link) -> None:
        self._idle.append(link)
        self._free.release()

    async def close(self) -> None:
        """Lend no more connections, wait for those on loan, and close all."""
        if self._closed:
            return
        self._closed = True
        for _ in range(self._size):
            await self._free.acquire()
        for link in self._idle:
            await link.drop()
