"""Limits the size of provider responses, so that an endless one takes neither the server's memory nor its time."""

from typing import Final

import httpx2

LARGEST_BYTES: Final = 4_000_000
"""Size of an unpacked response: many times the longest expected answer, reasoning included."""
_OF_THE_WIRE: Final = frozenset(("content-encoding", "content-length", "transfer-encoding"))


class ResponseTooLarge(httpx2.TransportError):
    """A response is larger than any expected one."""


class BoundedTransport(httpx2.AsyncBaseTransport):
    """Reads whole responses of at most `LARGEST_BYTES`."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the response, read and unpacked. Raises ResponseTooLarge, and closes the connection."""
        answer = await self._inner.handle_async_request(request)
        read = bytearray()
        try:
            async for part in answer.aiter_bytes():
                read += part
                if len(read) > LARGEST_BYTES:
                    raise ResponseTooLarge(f"the answer is larger than {LARGEST_BYTES} bytes")
        finally:
            await answer.aclose()
        headers = [(name, value) for name, value in answer.headers.multi_items() if name not in _OF_THE_WIRE]
        return httpx2.Response(answer.status_code, headers=headers, content=bytes(read), extensions=answer.extensions)

    async def aclose(self) -> None:
        await self._inner.aclose()
