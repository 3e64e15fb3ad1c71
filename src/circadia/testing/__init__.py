"""Fakes for tests: a mock model provider, a mock MCP server, a clock that tests advance."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from circadia.testing.clock import ManualClock
    from circadia.testing.mcp_upstream import MockMcpServer
    from circadia.testing.upstream import MockUpstream

__all__ = ["ManualClock", "MockMcpServer", "MockUpstream"]

_PLACES = {"ManualClock": "clock", "MockMcpServer": "mcp_upstream", "MockUpstream": "upstream"}


def __getattr__(name: str) -> Any:
    """Import a fake on first access, so that its module can also run as a program."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"circadia.testing.{_PLACES[name]}"), name)
