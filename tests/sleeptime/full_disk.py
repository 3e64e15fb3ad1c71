"""A store whose disk can be full."""

from circadia.errors import StorageUnavailable
from tests.watched_store import Watched


class Full(Watched):
    """A store that writes nothing while its disk is `full`."""

    full = False

    def before_commit(self) -> None:
        """Fail while it is full."""
        if self.full:
            raise StorageUnavailable("its disk is full")
