"""A tool: its name, what a model is told of it, and what it does."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from mcp_types import Tool as Listed
from mcp_types import ToolAnnotations

from circadia.mcp_server.arguments import ToolResult, input_schema
from circadia.mcp_server.caller import Caller


@dataclass(frozen=True, kw_only=True, slots=True)
class Tool:
    """One tool of the server."""

    name: str
    """What it is called by."""
    description: str
    """When to use it, for the model that reads it."""
    arguments: type[Any]
    """Model of what it takes; a subclass of `Arguments`."""
    answer: type[ToolResult]
    """Model of what it returns."""
    run: Callable[[Caller, Any], Awaitable[ToolResult]]
    """Does it. Raises CircadiaError for what the caller can mend."""
    reads_only: bool = False
    """Whether it changes nothing."""

    def as_listed_tool(self) -> Listed:
        """Return the tool as `tools/list` shows it: without the schema of its answer, which no model needs."""
        reads = ToolAnnotations(read_only_hint=True)
        return Listed(
            name=self.name,
            description=self.description,
            input_schema=input_schema(self.arguments),
            annotations=reads if self.reads_only else ToolAnnotations(destructive_hint=False),
        )
