"""The MCP server as a stateless ASGI application behind the gateway, for both protocol eras.

The gateway authenticates the caller, holds the call while its agent sleeps, and keeps the connection alive. It passes
the caller (`circadia.principal`) and a list of callbacks for the end of the answer (`circadia.sent`) in the scope. When
it cancels the call, the tool is cancelled too.
"""

import logging
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import cache, partial
from importlib.metadata import version
from typing import Any, Final

from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    TextContent,
)
from mcp_types import Tool as Listed
from starlette.types import ASGIApp, Receive, Scope, Send

from circadia.errors import JSON_RPC_CODE, CircadiaError, RetryLater
from circadia.gateway.mcp.stdio import McpSdk
from circadia.mcp_server.caller import HANDOVER, SENT, Handover, McpContext, caller_of
from circadia.mcp_server.prompts import get_prompt, list_prompts
from circadia.mcp_server.resources import instruction_text, list_resources, list_templates, read_resource
from circadia.mcp_server.tool import read_arguments
from circadia.mcp_server.tools import (
    CORRECTION_TOOLS,
    DREAM_TOOLS,
    GROUPS,
    RETHINK_TOOLS,
    ROUTINE_TOOLS,
    TOOLS,
    Tool,
    list_folders,
)
from circadia.suggestions import did_you_mean

_logger = logging.getLogger(__name__)

_META: Final = "circadia/error"
"""Key of a tool error's code for programs; the protocol requires the prefix."""
_UNFORESEEN: Final = (
    "something went wrong inside Circadia; its log has the details. The call may have had an effect or none."
)
_LISTS_FRESH: Final = CacheHint(ttl_ms=10 * 60 * 1000, scope="public")
"""Lists are the same for all callers and change only with a release."""
_TOOLS_FRESH: Final = CacheHint(ttl_ms=60 * 1000, scope="private")
"""The tool list depends on the caller: sleep-time agents have more tools."""

Context = ServerRequestContext[Any, Any]


def _tool_error(code: str, message: str, *, retryable: bool) -> CallToolResult:
    """Return an error for the model: a result with code, problem and remedy."""
    return CallToolResult(
        content=[TextContent(type="text", text=f"{code}: {message}")],
        is_error=True,
        _meta={_META: {"code": code, "message": message, "retryable": retryable}},
    )


@contextmanager
def _raise_protocol_errors(what: str) -> Generator[None]:
    """Turn errors of a prompt or resource into JSON-RPC errors, an unforeseen one without its text."""
    try:
        yield
    except CircadiaError as error:
        data = {"code": error.code, "retryable": isinstance(error, RetryLater)}
        raise MCPError(JSON_RPC_CODE[type(error)], error.message, data) from error
    except Exception as error:
        _logger.exception("the %s failed", what)
        raise MCPError(INTERNAL_ERROR, _UNFORESEEN) from error


@cache
def _list_all_tools() -> Sequence[Listed]:
    """Return the entries of all tools, which take a while to build."""
    return [tool.as_listed_tool() for tool in (*TOOLS, *RETHINK_TOOLS, *ROUTINE_TOOLS, *DREAM_TOOLS)]


@asynccontextmanager
async def _open_server(context: McpContext) -> AsyncGenerator[ASGIApp]:
    server = McpServer(context)
    async with server.run():
        yield server


def load_server(context: McpContext) -> Callable[[], AbstractAsyncContextManager[ASGIApp]]:
    """Prepare in a thread what takes long; return what opens the server in the event loop."""
    _list_all_tools()
    return partial(_open_server, context)


class McpServer:
    """ASGI application for `/mcp`; it serves requests inside `run`."""

    def __init__(self, context: McpContext) -> None:
        self._context = context
        self._tools = {tool.name: tool for tool in TOOLS}
        self._more = {tool.name: tool for tool in RETHINK_TOOLS}
        self._routines = {tool.name: tool for tool in ROUTINE_TOOLS}
        self._dreams = {tool.name: tool for tool in DREAM_TOOLS}
        schemas = {tool.name: tool.input_schema for tool in _list_all_tools()}
        server: Server[Any] = Server(
            "circadia",
            version=version("circadia"),
            title="Circadia",
            instructions=instruction_text(),
            cache_hints={
                "tools/list": _TOOLS_FRESH,
                "prompts/list": _LISTS_FRESH,
                "resources/list": _LISTS_FRESH,
                "resources/templates/list": _LISTS_FRESH,
            },
            get_tool_input_schema=schemas.get,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
        )
        self._sdk = McpSdk(server)

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None]:
        """Serve requests within the block; can be used only once."""
        async with self._sdk.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        handover = Handover(self._context.waits)
        scope[SENT].append(handover.settle)
        await self._sdk({**scope, HANDOVER: handover}, receive, send)

    def _tools_of(self, context: Context) -> Mapping[str, Tool]:
        caller = caller_of(context, self._context)
        agent, dreams = caller.principal.agent, self._dreams if list_folders(caller) else {}
        if agent is None:
            return self._tools | dreams
        groups, tools = agent.policy.tools, self._tools
        if "*" not in groups:
            tools = {tool.name: tool for group in GROUPS if group in groups for tool in GROUPS[group]}
        more = self._more if agent.policy.sleeptime_agent else {}
        routines = self._routines if agent.policy.own_routines and {"*", "sleep"} & {*groups} else {}
        return {**tools, **more, **routines, **dreams}

    async def _list_tools(self, context: Context, _: PaginatedRequestParams | None) -> ListToolsResult:
        agent, known = caller_of(context, self._context).principal.agent, dict(self._tools_of(context))
        if agent is None or not agent.policy.may_correct_memory:  # a call says how the operator can grant it
            for tool in CORRECTION_TOOLS:
                known.pop(tool.name, None)
        return ListToolsResult(tools=[tool for tool in _list_all_tools() if tool.name in known])

    async def _call_tool(self, context: Context, params: CallToolRequestParams) -> CallToolResult:
        known = self._tools_of(context)
        tool = known.get(params.name)
        if tool is None:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name!r}{did_you_mean(params.name, known)}")
        try:
            caller = caller_of(context, self._context)
            arguments = read_arguments(tool.name, tool.arguments, params.arguments, zone=caller.principal.zone)
            answer = await tool.run(caller, arguments)
        except CircadiaError as error:
            return _tool_error(error.code, error.message, retryable=isinstance(error, RetryLater))
        except Exception:
            _logger.exception("the tool %r failed", tool.name)
            return _tool_error("internal_error", _UNFORESEEN, retryable=False)
        text = TextContent(type="text", text=answer.text())
        return CallToolResult(content=[text], structured_content=answer.structured())

    async def _list_prompts(self, _: Context, __: PaginatedRequestParams | None) -> ListPromptsResult:
        return ListPromptsResult(prompts=list_prompts())

    async def _get_prompt(self, context: Context, params: GetPromptRequestParams) -> GetPromptResult:
        with _raise_protocol_errors(f"prompt {params.name!r}"):
            return await get_prompt(caller_of(context, self._context), params.name, params.arguments or {})

    async def _list_resources(self, _: Context, __: PaginatedRequestParams | None) -> ListResourcesResult:
        return ListResourcesResult(resources=list_resources())

    async def _list_templates(self, _: Context, __: PaginatedRequestParams | None) -> ListResourceTemplatesResult:
        return ListResourceTemplatesResult(resource_templates=list_templates())

    async def _read_resource(self, context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        with _raise_protocol_errors(f"resource {params.uri!r}"):
            contents = await read_resource(caller_of(context, self._context), params.uri)
        return ReadResourceResult(contents=[contents])
