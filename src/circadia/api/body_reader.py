"""Reads the bodies of REST requests and of webhooks, up to a limit."""

import asyncio
from typing import Final

from starlette.types import Message, Receive, Scope

from circadia.errors import InvalidRequest, TooLarge
from circadia.gateway.calls.headers import first_value
from circadia.gateway.hold.bodies import CallerGone

BODY_SECONDS: Final = 30.0
"""Longest time for a body to arrive."""


class BodyReader:
    """Reads whole bodies up to a limit."""

    def __init__(self, max_body_bytes: int, setting: str) -> None:
        """`setting` is the name of the limit."""
        self._max_body_bytes = max_body_bytes
        self._setting = setting

    async def read(self, scope: Scope, receive: Receive) -> bytes:
        """Return the body.

        Raises:
            TooLarge: it is over the limit; the rest is not read. InvalidRequest: it does not arrive.
            CallerGone: the caller has disconnected.
        """
        length = first_value(scope["headers"], b"content-length")
        if length is not None and length.isdigit() and int(length) > self._max_body_bytes:
            raise self._too_large()
        message = await receive()
        if message["type"] == "http.request" and not message.get("more_body", False):
            body: bytes = message.get("body", b"")
            if len(body) > self._max_body_bytes:
                raise self._too_large()
            return body
        return await self._read_rest(message, receive)

    async def _read_rest(self, message: Message, receive: Receive) -> bytes:
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(BODY_SECONDS):
                while True:
                    if message["type"] == "http.disconnect":
                        raise CallerGone
                    part: bytes = message.get("body", b"")
                    size += len(part)
                    if size > self._max_body_bytes:
                        raise self._too_large()
                    parts.append(part)
                    if not message.get("more_body", False):
                        return b"".join(parts)
                    message = await receive()
        except TimeoutError as error:
            raise InvalidRequest(f"the body did not arrive within {BODY_SECONDS:g} s; send it again") from error

    def _too_large(self) -> TooLarge:
        return TooLarge(
            f"the body is over {self._max_body_bytes} bytes; send less, or ask the operator to raise {self._setting}"
        )
