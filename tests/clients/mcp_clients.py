"""The official MCP clients behind one call: call a tool, get its text and the progress that was reported."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import httpx2
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.types import TextContent

from tests.clients.node_program import run_node

HANDSHAKE = "2025-11-25"
MODERN = "2026-07-28"


@dataclass(frozen=True, kw_only=True)
class ToolAnswer:
    """What the client was told."""

    text: str
    is_error: bool
    steps: list[float]
    """Progress values, in the order in which they came."""


Call = Callable[[str, str, str, dict[str, Any], bool], Coroutine[Any, Any, ToolAnswer]]
"""URL, token, tool, arguments, whether to ask for progress."""


@dataclass(frozen=True, kw_only=True)
class McpClient:
    """One client in one protocol era."""

    name: str
    call: Call


def python_client(mode: str) -> Call:
    async def call(url: str, token: str, tool: str, arguments: dict[str, Any], wanted: bool) -> ToolAnswer:
        steps: list[float] = []

        async def note(progress: float, total: float | None, message: str | None) -> None:
            steps.append(progress)

        result, failed = None, None
        headers = {"Authorization": f"Bearer {token}"}
        limits = httpx2.Timeout(30, read=300)
        async with httpx2.AsyncClient(headers=headers, timeout=limits, follow_redirects=True, verify=False) as http:
            async with Client(streamable_http_client(url, http_client=http), mode=mode) as client:
                assert client.protocol_version == (HANDSHAKE if mode == "legacy" else MODERN)
                try:
                    result = await client.call_tool(tool, arguments, progress_callback=note if wanted else None)
                except MCPError as error:
                    failed = error  # raised here it would come out of the client's task group as a group
        if failed is not None:
            raise failed
        assert result is not None
        content = result.content[0]
        assert isinstance(content, TextContent)
        return ToolAnswer(text=content.text, is_error=bool(result.is_error), steps=steps)

    return call


def _node(sdk: str, mode: object, options: dict[str, Any]) -> Call:
    async def call(url: str, token: str, tool: str, arguments: dict[str, Any], progress: bool) -> ToolAnswer:
        said = await run_node(
            "mcp.mjs",
            sdk=sdk,
            mode=mode,
            url=url,
            token=token,
            tool=tool,
            arguments=arguments,
            progress=progress,
            options=options,
        )
        steps = [step["progress"] for step in said.fields["steps"]]
        return ToolAnswer(text=said.text, is_error=said.fields["is_error"], steps=steps)

    return call


NODE_VARIANTS: tuple[tuple[str, str, object], ...] = (
    ("typescript-v1", "v1", "legacy"),
    ("typescript-v2-handshake", "v2", "legacy"),
    ("typescript-v2-auto", "v2", "auto"),
    ("typescript-v2-stateless", "v2", {"pin": MODERN}),
)


def mcp_clients() -> list[McpClient]:
    """Return all clients with the limits that they have by default."""
    python = [
        McpClient(name="python-handshake", call=python_client("legacy")),
        McpClient(name="python-auto", call=python_client("auto")),
        McpClient(name="python-stateless", call=python_client(MODERN)),
    ]
    return [*python, *(McpClient(name=name, call=_node(sdk, mode, {})) for name, sdk, mode in NODE_VARIANTS)]


def impatient_clients(milliseconds: int, *, reset: bool) -> list[McpClient]:
    """Return the TypeScript clients with a short limit, which progress may or may not reset."""
    options = {"timeout": milliseconds, "resetTimeoutOnProgress": reset}
    return [McpClient(name=name, call=_node(sdk, mode, options)) for name, sdk, mode in NODE_VARIANTS]
