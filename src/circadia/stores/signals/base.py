"""Change hints between waiting parties. The database is the truth: a lost signal costs a second, never a wake."""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

LOCAL_TOPICS: Final = frozenset({"wake", "turn", "prefix_break"})
"""Topics that only the process itself hears: they count what it did, or name calls that it holds."""


CONNECTION: Final = "connection"
"""Topic on which a process hears that signals of others begin to arrive (`{"is_connected": true}`), or stop to."""


class Signals(Protocol):
    """Notifies the listeners of a topic that something about a key changed.

    `publish` is called after a commit and must not wait or raise. Listeners run in the event loop in publishing order
    and must not wait. Those of this process are called before `publish` returns; those of other processes soon after,
    except for `LOCAL_TOPICS`, with the data as JSON has it.
    """

    def publish(self, topic: str, key: str, data: Mapping[str, object] | None = None) -> None: ...

    def send(self, process: str, topic: str, key: str, data: Mapping[str, object]) -> None:
        """Publish a signal that one other process hears, and nobody else."""
        ...

    def listen(
        self, topic: str, listener: Callable[[str, Mapping[str, object]], None], *, own: bool = False
    ) -> Callable[[], None]:
        """Call `listener(key, data)` on each signal of the topic; return a function that removes it.

        With `own`, signals of other processes are left out.
        """
        ...
