"""A store whose disk can be full."""

from circadia.errors import StorageUnavailable
from tests.watched_store import Watched


class Full(Watched):
    """A store that writes nothing while its disk is `full`."""

    full = False
    refused = 0
    """How many writes it has refused."""

    def before_commit(self) -> None:
        """Fail while it is full."""
        if self.full:
            self.refused += 1
            raise StorageUnavailable("its disk is full")
