"""Fits the answer of an MCP server to the reply that its caller already has."""

import asyncio
from collections.abc import Callable
from typing import Final

from starlette.types import Message, Receive

from circadia.errors import UpstreamFailed
from circadia.gateway.hold.reply import Phase, Reply
from circadia.gateway.mcp.reply_format import json_event

Headers = list[tuple[bytes, bytes]]
TAKEN: Final = "circadia.taken"
"""Key in a request's scope: what a server calls when it takes the message, so that the next one may come.

One that does not call it gets the messages of an agent's line one after the other.
"""


class ReplyAdapter:
    """The `send` of the server.

    A stream passes as it comes. Any other answer is gathered and sent in one piece, as an event if the door has opened
    a
    stream meanwhile.
    """

    def __init__(
        self, reply: Reply, settle: Callable[[], None], headers: Callable[[Headers], Headers], most: int
    ) -> None:
        self._reply = reply
        self._settle = settle
        self._change = headers
        self._status = 200
        self._headers: Headers = []
        self._streams = False
        self._parts: list[bytes] = []
        self._size = 0
        self._most = most

    async def send(self, message: Message) -> None:
        """Take one ASGI message. Raises UpstreamFailed if the answer does not fit the opened stream."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = self._change(list(message.get("headers", [])))
            kind = next((value for name, value in self._headers if name.lower() == b"content-type"), b"")
            self._streams = kind.startswith(b"text/event-stream")
            if self._streams:
                self._settle()
                await self._reply.start(self._status, self._headers)
        elif self._streams:
            await self._reply.write(message.get("body", b""))
            if not message.get("more_body", False):
                await self._reply.finish()
        else:
            self._parts.append(message.get("body", b""))
            self._size += len(self._parts[-1])
            if self._size > self._most:
                raise UpstreamFailed(f"the MCP server sent more than {self._most} bytes")
            if not message.get("more_body", False):
                await self._send_whole(b"".join(self._parts))

    async def _send_whole(self, body: bytes) -> None:
        self._settle()
        if self._reply.phase is not Phase.OPENED:
            headers = [(name, value) for name, value in self._headers if name.lower() != b"content-length"]
            await self._reply.send_whole(self._status, headers, body)
            return
        if not body.lstrip().startswith(b"{"):
            raise UpstreamFailed(f"the MCP server answered {self._status} without a JSON-RPC message")
        await self._reply.finish(json_event(body))


def build_receive(body: bytes | None) -> Receive:
    """Return a `receive` that yields the body once and then waits: the door itself watches for a disconnect."""
    sent = False

    async def receive() -> Message:
        nonlocal sent
        if not sent:
            sent = True
            return {"type": "http.request", "body": body or b"", "more_body": False}
        await asyncio.Future[None]()
        raise AssertionError

    return receive
