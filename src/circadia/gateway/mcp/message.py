"""The fields of a JSON-RPC message that the gateway reads; the bytes are passed on unchanged."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import orjson

from circadia.errors import InvalidRequest

HELD_METHODS = frozenset({"tools/call", "resources/read", "prompts/get"})
"""Requests that are held while the agent sleeps (GATE-40)."""
LIST_METHODS = frozenset({"tools/list", "resources/list", "resources/templates/list", "prompts/list"})
"""Requests that only the strict mode holds (GATE-41)."""
WAIT_TOOLS = frozenset({"wait_for_message", "wait_for_mention", "wait_for_agent"})
"""Circadia's own tools that may answer "nothing yet" (GATE-48)."""
CANCELLED = "notifications/cancelled"
_NOTIFIES = "notifications/"
"""Prefix of methods without an answer; some clients give them a null id."""


@dataclass(frozen=True, kw_only=True, slots=True)
class McpMessage:
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
