"""Callers that wait: one raw connection each, so that ten thousand of them cost little."""

import asyncio
import time
from typing import cast


class Caller(asyncio.Protocol):
    """Sends one request and waits for its whole answer."""

    __slots__ = ("_answer", "_request", "_transport", "done", "ended_at", "opened")

    def __init__(self, request: bytes) -> None:
        loop = asyncio.get_running_loop()
        self._request = request
        self._answer = bytearray()
        self._transport: asyncio.Transport | None = None
        self.opened: asyncio.Future[None] = loop.create_future()
        """Done when the first byte came."""
        self.done: asyncio.Future[bytes] = loop.create_future()
        """The whole answer, head and body."""
        self.ended_at = 0.0
        """When it was whole, on `time.monotonic`."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the request."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Take a part of the answer."""
        self._answer += data
        if not self.opened.done():
            self.opened.set_result(None)
        if whole(self._answer) and not self.done.done():
            self.ended_at = time.monotonic()
            self.done.set_result(bytes(self._answer))
            assert self._transport is not None
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell that no answer will come."""
        for future in (self.opened, self.done):
            if not future.done():
                future.set_exception(ConnectionError(f"broken after {bytes(self._answer[:200])!r}"))
                future.exception()


async def call(port: int, request: bytes) -> Caller:
    """Connect and send; return the caller that waits for the answer."""
    _, caller = await asyncio.get_running_loop().create_connection(lambda: Caller(request), "127.0.0.1", port)
    return caller


def good(answer: bytes) -> bool:
    """Return whether this is the fast upstream's whole answer, streamed or not."""
    return answer.startswith(b"HTTP/1.1 200") and (b"data: [DONE]" in answer or b'"usage"' in answer)


def whole(answer: bytearray) -> bool:
    """Return whether the answer has all its bytes."""
    if answer.endswith(b"0\r\n\r\n"):
        return True
    end = answer.find(b"\r\n\r\n")
    if end < 0:
        return False
    head = bytes(answer[:end]).lower()
    at = head.find(b"content-length:")
    if at < 0:
        return False
    length = int(head[at + 15 :].split(b"\r\n", 1)[0])
    return len(answer) >= end + 4 + length
