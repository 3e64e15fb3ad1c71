"""Reads answers of providers up to a size: one without an end takes neither the server's memory nor its time."""

from typing import Final

import httpx2

LARGEST_BYTES: Final = 4_000_000
"""Of an answer, unpacked: many times what the longest has that is asked for, what was thought before it included."""
_OF_THE_WIRE: Final = frozenset(("content-encoding", "content-length", "transfer-encoding"))


class ResponseTooLarge(httpx2.TransportError):
    """An answer is larger than any that was asked for."""


class BoundedTransport(httpx2.AsyncBaseTransport):
    """Gives whole answers, and no more than `LARGEST_BYTES` of any."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the answer, read and unpacked. Raises TooLarge; the connection is closed then."""
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
        """Close all connections."""
        await self._inner.aclose()
