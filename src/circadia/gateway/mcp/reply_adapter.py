"""Fits the answer of an MCP server to the reply that its caller already has."""

import asyncio
import json
from collections.abc import Callable
from functools import partial
from typing import Final, cast

from starlette.types import Message, Receive

from circadia.errors import UpstreamFailed
from circadia.gateway.dialects.errors import error_reason
from circadia.gateway.hold.in_flight import run_off_loop
from circadia.gateway.hold.reply import Phase, Reply
from circadia.gateway.mcp.message import McpMessage
from circadia.gateway.mcp.reply_format import json_event

Headers = list[tuple[bytes, bytes]]
TAKEN: Final = "circadia.taken"
"""Key in a request's scope: what a server calls when it takes the message, so that the next one may come.

One that does not call it gets the messages of an agent's line one after the other.
"""


class ReplyAdapter:
    """The `send` of the server.

    A stream passes as it comes. Any other answer is gathered and sent in one piece, as an event if the door has opened
    a stream meanwhile. In that, a caller waits for a response with the id of its `message`: whatever else comes is an
    error with this id.
    """

    def __init__(
        self,
        reply: Reply,
        message: McpMessage,
        server: str,
        settle: Callable[[], None],
        headers: Callable[[Headers], Headers],
        most: int,
    ) -> None:
        self._reply = reply
        self._message = message
        self._server = server
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
            self._streams = kind.startswith(b"text/event-stream") and self._status < 400
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
        if not await run_off_loop(body, partial(_is_response, body, self._message)):
            raise UpstreamFailed(f"MCP server {self._server!r} answered {self._status}{self._explain(body)}")
        await self._reply.finish(json_event(body))

    def _explain(self, body: bytes) -> str:
        if self._status < 400:
            return " without a response to this request"
        reason = error_reason(body)
        # Servers that lost a session answer 404, some 400 (MCP 2025-11-25, transports).
        return f"{reason and ': '}{reason}{'; initialize again' if self._status in (400, 404) else ''}"


def _is_response(body: bytes, message: McpMessage) -> bool:
    """Return whether the body is a response to this request; of a batch, whose ids are not kept, any JSON is one."""
    try:
        answer: object = json.loads(body)  # orjson refuses texts that were cut within a character
    except ValueError:
        return False
    if message.batch or not isinstance(answer, dict):
        return message.batch
    response = cast("dict[str, object]", answer)
    return response.get("id") == message.id and not response.keys().isdisjoint(("result", "error"))


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
