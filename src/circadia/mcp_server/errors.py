"""MCP errors: a tool's error is a result for its model, a resource's a JSON-RPC error."""

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, CallToolResult, TextContent

from circadia.errors import JSON_RPC_CODE, CircadiaError, RetryLater

_META = "circadia/error"
"""Key of the error code for programs; the protocol requires the prefix."""
_UNFORESEEN = "something went wrong inside Circadia; its log has the details. The call may have had an effect or none."


def tool_error(error: CircadiaError) -> CallToolResult:
    """Return a tool error with code, problem and remedy."""
    return _error_result(error.code, error.message, retryable=isinstance(error, RetryLater))


def unforeseen_tool_error() -> CallToolResult:
    """Return the tool error for an unexpected exception, without its text."""
    return _error_result("internal_error", _UNFORESEEN, retryable=False)


def _error_result(code: str, message: str, *, retryable: bool) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(type="text", text=f"{code}: {message}")],
        is_error=True,
        _meta={_META: {"code": code, "message": message, "retryable": retryable}},
    )


def protocol_error(error: CircadiaError) -> MCPError:
    data = {"code": error.code, "retryable": isinstance(error, RetryLater)}
    return MCPError(JSON_RPC_CODE[type(error)], error.message, data)


def unforeseen_protocol_error() -> MCPError:
    return MCPError(INTERNAL_ERROR, _UNFORESEEN)
