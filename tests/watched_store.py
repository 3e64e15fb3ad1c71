"""A store around another one that does something when a write block ends."""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from circadia.errors import StorageUnavailable
from circadia.stores.base import Store, Tx
from circadia.stores.locks import LockKey


class HookedStore:
    """A store that writes and reads as the one within does."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.ping = store.ping
        self.begin_single_read = store.begin_single_read
        self.close = store.close
        self.save_touches = store.save_touches
        self.read_clock = store.read_clock
        self.commits_in_order = store.commits_in_order

    @property
    def for_operators(self) -> Store:
        """Read as agents do."""
        return self

    def before_commit(self) -> None:
        """Do something at the end of a write block, which is undone if this raises."""

    def after_commit(self) -> None:
        """Do something when a write block is on the disk."""

    @asynccontextmanager
    async def begin_write(self, *keys: LockKey) -> AsyncGenerator[Tx]:
        """Write."""
        async with self._store.begin_write(*keys) as tx:
            yield tx
            self.before_commit()
        self.after_commit()

    def begin_read(self) -> AbstractAsyncContextManager[Tx]:
        """Read."""
        return self._store.begin_read()


class LostReplyStore(HookedStore):
    """A store that is lost once something is on the disk, before it can say so."""

    lost = 0
    """How many writes are still to be answered so."""
    spared = 0
    """How many writes before them are answered."""

    def after_commit(self) -> None:
        """Be lost."""
        if self.spared:
            self.spared -= 1
        elif self.lost:
            self.lost -= 1
            raise StorageUnavailable("the connection broke off")
