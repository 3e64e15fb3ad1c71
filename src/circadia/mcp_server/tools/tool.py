"""A tool: its name, its description for the model, and its function."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from mcp_types import Tool as Listed
from mcp_types import ToolAnnotations

from circadia.mcp_server.arguments import ToolResult, input_schema
from circadia.mcp_server.caller import Caller


@dataclass(frozen=True, kw_only=True, slots=True)
class Tool:
    """A tool of the server."""

    name: str
    description: str
    """When to use it, for the model."""
    arguments: type[Any]
    """A subclass of `Arguments`."""
    answer: type[ToolResult]
    run: Callable[[Caller, Any], Awaitable[ToolResult]]
    """Raises CircadiaError for what the caller can correct."""
    reads_only: bool = False

    def as_listed_tool(self) -> Listed:
        """Return the entry for `tools/list`, without an answer schema, which no model needs."""
        reads = ToolAnnotations(read_only_hint=True)
        return Listed(
            name=self.name,
            description=self.description,
            input_schema=input_schema(self.arguments),
            annotations=reads if self.reads_only else ToolAnnotations(destructive_hint=False),
        )
