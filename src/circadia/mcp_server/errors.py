"""Errors in the words of MCP: a tool's error is a result that its model can read, a resource's a JSON-RPC error."""

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, CallToolResult, TextContent

from circadia.errors import JSON_RPC_CODE, CircadiaError, RetryLater

_META = "circadia/error"
"""Where programs find the code; a prefixed key of `_meta`, as the protocol asks."""
_UNFORESEEN = "something went wrong inside Circadia; its log has the details. The call may have had an effect or none."


def tool_error(error: CircadiaError) -> CallToolResult:
    """Return a tool's error: code, what happened and what to do."""
    return _error_result(error.code, error.message, retryable=isinstance(error, RetryLater))


def unforeseen_tool_error() -> CallToolResult:
    """Return what a caller learns of an exception that nobody foresaw: nothing of its text."""
    return _error_result("internal_error", _UNFORESEEN, retryable=False)


def _error_result(code: str, message: str, *, retryable: bool) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(type="text", text=f"{code}: {message}")],
        is_error=True,
        _meta={_META: {"code": code, "message": message, "retryable": retryable}},
    )


def protocol_error(error: CircadiaError) -> MCPError:
    """Return a JSON-RPC error with the code of `JSON_RPC_CODE`."""
    data = {"code": error.code, "retryable": isinstance(error, RetryLater)}
    return MCPError(JSON_RPC_CODE[type(error)], error.message, data)


def unforeseen_protocol_error() -> MCPError:
    """Return the JSON-RPC error of an exception that nobody foresaw."""
    return MCPError(INTERNAL_ERROR, _UNFORESEEN)
