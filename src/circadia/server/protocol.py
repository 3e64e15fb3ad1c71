"""uvicorn's HTTP protocol, with an end for every request of a lost connection."""

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle


class Http(HttpToolsProtocol):
    """Tells the running request that its caller is gone, also when a pipelined one stands behind it.

    uvicorn tells only the newest one: a held call with another behind it would wait, and be sent upstream, for nobody.
    """

    _running: RequestResponseCycle | None = None

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the running request, and forget those that stand behind it."""
        self.pipeline.clear()
        running = self._running
        if running is not None and not running.response_complete:
            running.disconnected = True
            running.message_event.set()
        super().connection_lost(exc)
