"""Proxied stdio MCP servers: ASGI applications that support both protocol eras and keep no session (GATE-74).

The official SDK serves in front; one child process, or one per agent (GATE-75), answers behind it. The front offers
the child's capabilities, except those that need their own stream: list changes, subscriptions, logging, sampling.
Requests and answers pass complete: no protocol revision, ours or the caller's, removes anything.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, cast

from mcp.server.caching import CACHEABLE_METHODS
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp_types import SERVER_INFO_META_KEY, DiscoverResult, ProgressToken, RequestParams, ServerCapabilities
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.types import Message, Receive, Scope, Send

from circadia.child_process import OsUser
from circadia.clock import Clock
from circadia.errors import JSON_RPC_CODE, CircadiaError, ConfigError, InvalidRequest, RetryLater
from circadia.gateway.calls.headers import first_value
from circadia.gateway.mcp.child import ChildSupervisor
from circadia.gateway.mcp.messages import TAKEN, json_event, json_rpc_event
from circadia.ids import AgentId
from circadia.records.principal import Principal
from circadia.settings import McpServerSettings

KEY = "circadia.progress"
"""Key in the ASGI scope: the request's `ProgressSend`."""
_HEADERS = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")]


class ProgressSend:
    """The `send` of one request: passes a JSON answer as it is, or as the last event after progress."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._order = asyncio.Lock()  # protects the order of the messages: reports come from their own tasks
        self._answering = False
        self._streams = False
        self._parts: list[bytes] = []

    async def report(self, token: ProgressToken, progress: float, total: float | None, message: str | None) -> None:
        """Send one progress report, unless the answer has begun."""
        params: dict[str, object] = {"progressToken": token, "progress": progress}
        params |= {} if total is None else {"total": total}
        params |= {} if message is None else {"message": message}
        event = json_rpc_event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        async with self._order:
            if self._answering:
                return
            if not self._streams:
                self._streams = True
                await self._send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await self._send({"type": "http.response.body", "body": event, "more_body": True})

    async def __call__(self, message: Message) -> None:
        async with self._order:
            self._answering = True
            if not self._streams:
                await self._send(message)
            elif message["type"] == "http.response.body":
                self._parts.append(message.get("body", b""))
                if not message.get("more_body", False):
                    last = json_event(b"".join(self._parts))
                    await self._send({"type": "http.response.body", "body": last, "more_body": False})


_FORWARDED: Final = frozenset(
    {
        "tools/list", "tools/call", "resources/list", "resources/templates/list", "resources/read", "prompts/list",
        "prompts/get", "completion/complete",
    }
)  # fmt: skip
_NEVER_FRESH: Final[dict[str, object]] = {"ttlMs": 0, "cacheScope": "private"}
_OFFERED: Final = ("tools", "resources", "prompts", "completions")
_ERA_PREFIX: Final = "io.modelcontextprotocol/"

Context = ServerRequestContext[Any, Any]


class StdioServers:
    """The configured stdio servers; they serve inside `run`. Raises ConfigError for a bad `env_from` or `user`."""

    def __init__(self, settings: Mapping[str, McpServerSettings], environment: Mapping[str, str], clock: Clock) -> None:
        self.servers: Mapping[str, StdioServerApp] = {
            name: _build_front(name, server_settings, environment, clock)
            for name, server_settings in settings.items()
            if server_settings.command
        }

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None]:
        """Serve within the block; then end every child with everything it started."""
        async with AsyncExitStack() as stack:
            for front in self.servers.values():
                await stack.enter_async_context(front.run())
            yield


class StdioServerApp:
    def __init__(self, name: str, settings: McpServerSettings, environment: Mapping[str, str], clock: Clock) -> None:
        self._per_agent = settings.per_agent
        self._slots: dict[AgentId | None, ChildSupervisor] = {}
        self._new_slot: Callable[[AgentId | None], ChildSupervisor] = lambda key: ChildSupervisor(
            name, settings, environment, clock, on_idle=lambda: self._slots.pop(key)
        )
        self._server: Server[Any] = Server(name, get_tool_input_schema=_skip_schema_check)
        self._server.add_request_handler("server/discover", RequestParams, self._discover)
        self._server.middleware.append(self._handle_request)
        self._sdk = McpSdk(self._server)

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None]:
        try:
            async with self._sdk.run():
                yield
        finally:
            await asyncio.gather(*(slot.stop() for slot in self._slots.values()))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        out = ProgressSend(send)
        await self._sdk({**scope, KEY: out}, receive, out)

    def _slot(self, context: Context) -> ChildSupervisor:
        assert context.request is not None
        principal = cast("Principal", context.request.scope["circadia.principal"])
        key = principal.agent.id if self._per_agent and principal.agent else None
        if key not in self._slots:
            self._slots[key] = self._new_slot(key)
        return self._slots[key]

    async def _handle_request(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Return the child's answer to forwarded requests, and its own information for `initialize`."""
        if ctx.method in _FORWARDED:
            return await self._forward(ctx)  # not by a handler, whose results the SDK reduces to the fields it knows
        result = await call_next(ctx)
        if ctx.method != "initialize" or not isinstance(result, dict):
            return result
        greeting = await self._greeting(ctx)
        information = {key: greeting[key] for key in ("serverInfo", "instructions") if key in greeting}
        return {**result, **information, "capabilities": _offered_capabilities(greeting)}

    async def _forward(self, context: Context) -> HandlerResult:
        if context.request is not None:
            context.request.scope.get(TAKEN, _do_nothing)()
        try:
            result = await self._slot(context).ask(
                context.method, _forwardable_params(context), _progress_reporter(context)
            )
        except CircadiaError as error:
            raise _to_mcp_error(error) from error
        if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return result
        fresh = _NEVER_FRESH if context.method in CACHEABLE_METHODS else {}
        meta: dict[str, Any] = {SERVER_INFO_META_KEY: self._server.server_info_stamp}
        child_meta: object = result.get("_meta")
        if isinstance(child_meta, dict):
            meta |= cast("dict[str, Any]", child_meta)
        # Defaults for a child of the older era come first, so that its own values win.
        return {"resultType": "complete", **fresh, **result, "_meta": meta}

    async def _greeting(self, context: Context) -> Mapping[str, Any]:
        try:
            return await self._slot(context).greeting()
        except CircadiaError as error:
            raise _to_mcp_error(error) from error

    async def _discover(self, context: Context, _: RequestParams) -> DiscoverResult:
        greeting = await self._greeting(context)
        return DiscoverResult(
            supported_versions=list(MODERN_PROTOCOL_VERSIONS),
            capabilities=ServerCapabilities.model_validate(_offered_capabilities(greeting)),
            instructions=greeting.get("instructions"),
        )


def _build_front(
    name: str, settings: McpServerSettings, environment: Mapping[str, str], clock: Clock
) -> StdioServerApp:
    if settings.user is not None:
        user = OsUser.resolve(f"mcp_servers.{name}.user", settings.user)
        settings = settings.model_copy(update={"command": user.command(settings.command)})
        environment = {**environment, "HOME": user.home}
    return StdioServerApp(name, settings, _child_environment(name, settings, environment), clock)


def _child_environment(name: str, settings: McpServerSettings, environment: Mapping[str, str]) -> Mapping[str, str]:
    missing = [variable for variable in settings.env_from if variable not in environment]
    if missing:
        raise ConfigError(f"mcp_servers.{name}.env_from: the environment has no {missing[0]!r}; set it")
    basis = {key: environment[key] for key in ("PATH", "HOME") if key in environment}
    return {**basis, **settings.env, **{key: environment[key] for key in settings.env_from}}


def _offered_capabilities(greeting: Mapping[str, Any]) -> dict[str, dict[str, object]]:
    """Return the child's capabilities that work through the gateway."""
    return {key: {} for key in _OFFERED if key in greeting.get("capabilities", {})}


def _forwardable_params(context: Context) -> Mapping[str, Any]:
    """Return the parameters without those of the caller's own connection."""
    params = dict(context.params or {})
    raw_meta: object = params.pop("_meta", None)
    if isinstance(raw_meta, dict):
        meta = cast("dict[str, Any]", raw_meta)
        rest = {k: v for k, v in meta.items() if k != "progressToken" and not k.startswith(_ERA_PREFIX)}
        params |= {"_meta": rest} if rest else {}
    return params


def _progress_reporter(context: Context) -> ProgressFnT | None:
    """Return a callback that sends the child's progress to the caller, if it requested progress."""
    token = progress_token_from_params(context.params)
    if token is None or context.request is None:
        return None
    out = cast("ProgressSend", context.request.scope[KEY])

    async def report(progress: float, total: float | None, message: str | None) -> None:
        await out.report(token, progress, total, message)

    return report


def _to_mcp_error(error: CircadiaError) -> MCPError:
    data = {"code": error.code, "retryable": isinstance(error, RetryLater), "sleeping": False}
    return MCPError(JSON_RPC_CODE[type(error)], error.message, data)


def _do_nothing() -> None: ...


def _skip_schema_check(_: str) -> None:
    """Leave the check of a tool's arguments to the child, which knows its schema."""


class McpSdk:
    """ASGI application; it serves inside `run`, which may be entered once."""

    def __init__(self, server: Server[Any]) -> None:
        self._manager = StreamableHTTPSessionManager(server, json_response=True, stateless=True)

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None]:
        """Serve within the block.

        The SDK's task group runs in its own task, so that an error of the block is raised as it is and not in an
        exception
        group.
        """
        started, over = asyncio.Event(), asyncio.Event()

        async def keep() -> None:
            async with self._manager.run():
                started.set()
                await over.wait()

        keeping = asyncio.create_task(keep())
        await started.wait()
        try:
            yield
        finally:
            over.set()
            await keeping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = first_value(scope["headers"], b"content-type") or ""
        if not kind.lower().startswith("application/json"):  # the SDK would refuse it with a line of plain text
            raise InvalidRequest(f"the body is {kind[:80]!r}; send JSON-RPC with `Content-Type: application/json`")
        await self._manager.handle_request(scope, receive, send)
