"""Replies of the MCP door: JSON-RPC errors, and progress notifications or comments as keep-alives."""

import orjson

from circadia.errors import (
    HTTP_STATUS,
    JSON_RPC_CODE,
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
from circadia.gateway.hold.reply import OPENED_STREAM, method_headers

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
        is_answer = isinstance(error, RetryLater | LimitReached | UpstreamFailed | CallDropped)
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
