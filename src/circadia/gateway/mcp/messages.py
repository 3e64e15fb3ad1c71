"""JSON-RPC messages: the fields that the gateway reads, its own replies, and answers that fit an opened reply."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

import orjson
from starlette.types import Message, Receive

from circadia.errors import (
    HTTP_STATUS,
    JSON_RPC_CODE,
    ApprovalRefused,
    CallDropped,
    CircadiaError,
    InvalidRequest,
    LimitReached,
    RetryLater,
    StillAsleep,
    TargetGone,
    Unauthenticated,
    UpstreamFailed,
)
from circadia.gateway.dialects.errors import error_reason
from circadia.gateway.hold.bodies import run_off_loop
from circadia.gateway.hold.reply import OPENED_STREAM, Phase, Reply, method_headers
from circadia.gateway.payload.server_sent_events import WholeEvents

HELD_METHODS = frozenset({"tools/call", "resources/read", "prompts/get"})
"""Requests that are held while the agent sleeps (GATE-40)."""
LIST_METHODS = frozenset({"tools/list", "resources/list", "resources/templates/list", "prompts/list"})
"""Requests that only the strict mode holds (GATE-41)."""
_NO_MESSAGE: Final[Mapping[str, object]] = {"messages": [], "timed_out": True}
WAIT_TOOLS: Final[Mapping[str, Mapping[str, object]]] = {
    "wait_for_message": _NO_MESSAGE, "wait_for_mention": _NO_MESSAGE, "wait_for_agent": _NO_MESSAGE,
    "wait_for_event": {"event": None, "timed_out": True},
}  # fmt: skip
"""What Circadia's own wait tools say for "nothing yet" (GATE-48)."""
CANCELLED = "notifications/cancelled"
_NOTIFIES = "notifications/"
"""Prefix of methods without an answer; some clients give them a null id."""


@dataclass(frozen=True, kw_only=True, slots=True)
class McpMessage:
    """What the gateway reads of a message; its bytes are passed on unchanged."""

    method: str = ""
    """The method; for a batch the first held one."""
    id: object = None
    target: str = ""
    """Name of the tool or prompt, or the resource's URI."""
    progress_token: object = None
    batch: bool = False
    cancels: object = None
    """Id of the request that a cancellation names."""

    def is_held(self, *, lists: bool) -> bool:
        return self.method in HELD_METHODS or (lists and self.method in LIST_METHODS)


def read_message(body: bytes) -> McpMessage:
    """Parse the body. Raises InvalidRequest if it is not JSON or not a JSON-RPC message."""
    try:
        raw: object = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"the body is not JSON: {error}; send one JSON-RPC message") from error
    if isinstance(raw, list):
        messages = [_parse_message(item) for item in cast("list[object]", raw)]
        held = next((item for item in messages if item.method in HELD_METHODS), None)
        held = held or next((item for item in messages if item.method in LIST_METHODS), None)
        return McpMessage(method=held.method if held else "", target=held.target if held else "", batch=True)
    return _parse_message(raw)


def _parse_message(raw: object) -> McpMessage:
    if not isinstance(raw, dict):
        raise InvalidRequest("the body is not a JSON-RPC message; send an object with `jsonrpc`, `method` and `params`")
    message = cast("dict[str, Any]", raw)
    method = message.get("method", "")
    if not isinstance(method, str):
        raise InvalidRequest("`method` must be a string")
    raw_params: object = message.get("params")
    params: Mapping[str, object] = cast("dict[str, object]", raw_params) if isinstance(raw_params, dict) else {}
    meta: object = params.get("_meta")
    token = cast("dict[str, object]", meta).get("progressToken") if isinstance(meta, dict) else None
    target: object = params.get("name", params.get("uri", ""))
    identity: object = message.get("id")
    sound = isinstance(identity, str | int) and not isinstance(identity, bool)
    if method and "id" in message and not sound and not method.startswith(_NOTIFIES):
        raise InvalidRequest("the `id` of a request must be a string or a whole number")  # or nobody would answer it
    cancels: object = params.get("requestId")
    return McpMessage(
        method=method,
        id=identity if isinstance(identity, str | int) else None,
        target=target[:200] if isinstance(target, str) else "",
        progress_token=token if isinstance(token, str | int) else None,
        cancels=cancels if method == CANCELLED and isinstance(cancels, str | int) else None,
    )


_NO_PROGRESS = -1e-6
"""Progress must grow with each notification: keep-alives rise from below to 0, where a tool may start."""


class McpReplyFormat:
    """The reply format of one JSON-RPC request; `request_id` is None until it is known, and for notifications."""

    def __init__(self, request_id: object = None, progress_token: object = None) -> None:
        self.opening = OPENED_STREAM
        self._id = request_id
        self._token = progress_token
        self._beats = 0

    def build_keep_alive(self) -> bytes:
        """Return a progress notification if the caller requested them, else a comment."""
        if self._token is None:
            return b": keep-alive\n\n"
        self._beats += 1
        params = {"progressToken": self._token, "progress": _NO_PROGRESS / self._beats, "message": "waiting"}
        return json_rpc_event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})

    def error_response(self, error: CircadiaError) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        """Return a JSON-RPC error, with status 200 if it answers a request that may succeed later or was dropped.

        A call that another server can take at once gets 503: a balancer sends it there, and the client sees no error.
        """
        headers = [(b"content-type", b"application/json"), *method_headers(error)]
        if isinstance(error, Unauthenticated):
            headers.append((b"www-authenticate", b'Bearer realm="circadia"'))
        moves = isinstance(error, TargetGone) and error.retry_after_seconds is not None
        is_answer = isinstance(error, RetryLater | LimitReached | UpstreamFailed | CallDropped | ApprovalRefused)
        answers = self._id is not None and is_answer and not moves
        status = 200 if answers else 400 if isinstance(error, InvalidRequest) else HTTP_STATUS[type(error)]
        if not answers and error.retry_after_seconds is not None:
            headers.append((b"retry-after", b"%d" % max(1, round(error.retry_after_seconds))))
        return status, headers, orjson.dumps(self._error(error))

    def in_band_error(self, error: CircadiaError) -> bytes | None:
        return json_rpc_event(self._error(error))

    def result(self, result: dict[str, object]) -> bytes:
        return orjson.dumps({"jsonrpc": "2.0", "id": self._id, "result": result})

    def _error(self, error: CircadiaError) -> dict[str, object]:
        data: dict[str, object] = {
            "code": error.code,
            "retryable": isinstance(error, RetryLater | LimitReached),
            "sleeping": isinstance(error, StillAsleep),
        }
        detail = {"code": JSON_RPC_CODE[type(error)], "message": error.message, "data": data}
        return {"jsonrpc": "2.0", "id": self._id, "error": detail}


def json_rpc_event(message: dict[str, object]) -> bytes:
    return json_event(orjson.dumps(message))


def json_event(message: bytes) -> bytes:
    """Return JSON text as a server-sent event, with one data line per line: a line break would end the data."""
    return b"event: message\n" + b"".join(b"data: %b\n" % line for line in message.splitlines() or [b""]) + b"\n"


Headers = list[tuple[bytes, bytes]]
TAKEN: Final = "circadia.taken"
"""Key in a request's scope: what a server calls when it takes the message, so that the next one may come.

One that does not call it gets the messages of an agent's line one after the other.
"""


class ReplyAdapter:
    """The `send` of the server.

    A stream passes event by event. Any other answer is gathered and sent in one piece, as an event if the door has
    opened a stream meanwhile. In that, a caller waits for a response with the id of its `message`: whatever else comes
    is an error with this id.
    """

    def __init__(
        self,
        reply: Reply,
        message: McpMessage,
        server: str,
        settle: Callable[[], None],
        headers: Callable[[Headers], Headers],
        max_bytes: int,
    ) -> None:
        self._reply = reply
        self._message = message
        self._server = server
        self._settle = settle
        self._change = headers
        self._status = 200
        self._headers: Headers = []
        self._events: WholeEvents | None = None
        self._parts: list[bytes] = []
        self._size = 0
        self._max_bytes = max_bytes

    async def send(self, message: Message) -> None:
        """Take one ASGI message. Raises UpstreamFailed if the answer does not fit the opened stream."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = self._change(list(message.get("headers", [])))
            kind = next((value for name, value in self._headers if name.lower() == b"content-type"), b"")
            if kind.startswith(b"text/event-stream") and self._status < 400:
                self._events = WholeEvents()
                self._settle()
                await self._reply.start(self._status, self._headers)
        elif self._events is not None:
            await self._reply.write(self._events.feed(message.get("body", b"")))
            if not message.get("more_body", False):
                await self._reply.finish(self._events.end())
        else:
            self._parts.append(message.get("body", b""))
            self._size += len(self._parts[-1])
            if self._size > self._max_bytes:
                raise UpstreamFailed(f"the MCP server sent more than {self._max_bytes} bytes")
            if not message.get("more_body", False):
                await self._send_whole(b"".join(self._parts))

    async def break_off(self) -> None:
        """Make room for an error behind a stream that broke off within an event."""
        if self._events is not None:
            await self._reply.write(self._events.break_off())

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
