"""A store whose disk can be full."""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from circadia.errors import StorageUnavailable
from circadia.stores.base import Store, Tx


class Full:
    """A store that writes nothing while its disk is `full`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.full = False
        self.ping = store.ping
        self.close = store.close

    @asynccontextmanager
    async def write(self) -> AsyncGenerator[Tx]:
        async with self._store.write() as tx:
            yield tx
            if self.full:
                raise StorageUnavailable("its disk is full")

    def read(self) -> AbstractAsyncContextManager[Tx]:
        return self._store.read()
