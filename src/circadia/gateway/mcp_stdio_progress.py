"""Progress of a stdio server on its way to the caller: the answer becomes a stream of events at the first report."""

import asyncio

from mcp_types import ProgressToken
from starlette.types import Message, Send

from circadia.gateway.mcp_voice import json_event, json_rpc_event

KEY = "circadia.progress"
"""Key of the ASGI scope: the request's `ProgressSend`."""
_HEADERS = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")]


class ProgressSend:
    """The `send` of one request: passes a JSON answer as it is, or as the last event if progress came before it."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._order = asyncio.Lock()  # protects the order of the messages: reports come from tasks of their own
        self._answering = False
        self._streams = False
        self._parts: list[bytes] = []

    async def report(self, token: ProgressToken, progress: float, total: float | None, message: str | None) -> None:
        """Send one report; nothing once the answer is under way."""
        params: dict[str, object] = {"progressToken": token, "progress": progress}
        params |= {} if total is None else {"total": total}
        params |= {} if message is None else {"message": message}
        event = json_rpc_event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        async with self._order:
            if self._answering:
                return
            if not self._streams:
                self._streams = True
                await self._send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await self._send({"type": "http.response.body", "body": event, "more_body": True})

    async def __call__(self, message: Message) -> None:
        """Take one ASGI message of the answer."""
        async with self._order:
            self._answering = True
            if not self._streams:
                await self._send(message)
            elif message["type"] == "http.response.body":
                self._parts.append(message.get("body", b""))
                if not message.get("more_body", False):
                    last = json_event(b"".join(self._parts))
                    await self._send({"type": "http.response.body", "body": last, "more_body": False})
