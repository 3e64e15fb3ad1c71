"""Signals within one process."""

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping

_logger = logging.getLogger(__name__)

Listener = Callable[[str, Mapping[str, object]], None]


class LocalSignals:
    """Calls listeners at once; one that raises is logged and does not affect the others."""

    def __init__(self) -> None:
        self._listeners: defaultdict[str, list[Listener]] = defaultdict(list)

    def publish(self, topic: str, key: str, data: Mapping[str, object] | None = None) -> None:
        for listener in tuple(self._listeners[topic]):
            try:
                listener(key, data or {})
            except Exception:
                _logger.exception("a listener of %r failed on %r", topic, key)

    def send(self, process: str, topic: str, key: str, data: Mapping[str, object]) -> None:
        """Do nothing: there is no other process."""

    def listen(self, topic: str, listener: Listener, *, own: bool = False) -> Callable[[], None]:
        """Add a listener; return a function that removes it. All signals are this process's own."""
        self._listeners[topic].append(listener)
        return lambda: self._listeners[topic].remove(listener)
