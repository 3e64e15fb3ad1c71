"""Change hints between waiting parties. The database is the truth: a lost signal costs a second, never a wake."""

from collections.abc import Callable, Mapping
from typing import Protocol


class Signals(Protocol):
    """Notifies the listeners of a topic that something about a key changed.

    `publish` is called after a commit and must not wait or raise. Listeners run in the event loop in publishing order
    and must not wait. The local implementation calls them before `publish` returns.
    """

    def publish(self, topic: str, key: str, data: Mapping[str, object] | None = None) -> None: ...

    def listen(self, topic: str, listener: Callable[[str, Mapping[str, object]], None]) -> Callable[[], None]:
        """Call `listener(key, data)` on each signal of the topic; return a function that removes it."""
        ...
