"""A store whose disk can be full, and a disk that is."""

import resource
from collections.abc import Generator
from contextlib import contextmanager

from circadia.errors import StorageUnavailable
from tests.watched_store import HookedStore


class FullDiskStore(HookedStore):
    """A store that writes nothing while its disk is `full`."""

    full = False
    refused = 0
    """How many writes it has refused."""

    def before_commit(self) -> None:
        """Fail while it is full."""
        if self.full:
            self.refused += 1
            raise StorageUnavailable("its disk is full")


@contextmanager
def no_room(beyond: int = 4096) -> Generator[None]:
    """Let no file of this process grow `beyond` so many bytes, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (beyond, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
