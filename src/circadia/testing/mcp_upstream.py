"""A small real MCP server for tests, built with the official SDK; it speaks both protocol eras.

    async with MockMcpServer() as server:
        async with Client(server.url) as client:
            await client.call_tool("echo", {"text": "hello"})
        assert server.calls[0].name == "echo"

Tools: `echo`, `add`, `slow` (reports progress), `whoami_env` (its process id and named environment variables) and, only
if the server has its own process, `crash`. One resource, `mock://greeting`; one prompt, `greet`.

As a process: `python -m circadia.testing.mcp_upstream --stdio`, or `--port 9000` (0: any free port) for streamable HTTP
at the URL that it prints.
"""

import argparse
import asyncio
import contextlib
import os
import socket
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Self

import uvicorn
from mcp.server.mcpserver import Context, MCPServer

from circadia.clock import Clock, SystemClock

_WAIT_SECONDS = 20.0
_STEPS = 5


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    name: str
    arguments: dict[str, Any]


class ToolJournal:
    def __init__(self) -> None:
        self.calls: list[ToolCall] = []
        self.gate = asyncio.Event()
        """Calls are answered while it is set, and wait while it is cleared."""
        self.gate.set()
        self._changed = asyncio.Condition()

    async def record_call(self, name: str, /, **arguments: Any) -> None:
        async with self._changed:
            self.calls.append(ToolCall(name=name, arguments=arguments))
            self._changed.notify_all()
        await self.gate.wait()

    async def wait_for_calls(self, count: int, timeout_seconds: float = _WAIT_SECONDS) -> list[ToolCall]:
        """Wait for `count` calls in all, and return them. Raises TimeoutError."""
        async with asyncio.timeout(timeout_seconds), self._changed:
            await self._changed.wait_for(lambda: len(self.calls) >= count)
        return list(self.calls)


def _build(journal: ToolJournal, clock: Clock, *, may_crash: bool) -> MCPServer[Any]:
    server: MCPServer[Any] = MCPServer("circadia-mock", version="1", log_level="WARNING")

    @server.tool()
    async def echo(text: str) -> str:
        """Return the text."""
        await journal.record_call("echo", text=text)
        return text

    @server.tool()
    async def add(a: float, b: float) -> float:
        """Return the sum."""
        await journal.record_call("add", a=a, b=b)
        return a + b

    @server.tool()
    async def slow(seconds: float, context: Context) -> str:
        """Take some seconds and report progress in five steps."""
        await journal.record_call("slow", seconds=seconds)
        for step in range(_STEPS):
            await context.report_progress(step, _STEPS, f"step {step}")
            await clock.sleep(seconds / _STEPS)
        await context.report_progress(_STEPS, _STEPS, "done")
        return f"took {seconds} seconds"

    @server.tool()
    async def whoami_env(names: list[str] | None = None) -> dict[str, str]:
        """Return the process id and the named environment variables that are set."""
        await journal.record_call("whoami_env", names=names)
        return {"pid": str(os.getpid())} | {name: os.environ[name] for name in names or () if name in os.environ}

    if may_crash:

        @server.tool()
        async def crash() -> str:
            """End the process at once."""
            await journal.record_call("crash")
            os._exit(13)

    _add_resource_and_prompt(server, journal)
    return server


def _add_resource_and_prompt(server: MCPServer[Any], journal: ToolJournal) -> None:
    @server.resource("mock://greeting")
    async def greeting() -> str:
        """Return a fixed text."""
        await journal.record_call("resource greeting")
        return "hello from the mock"

    @server.prompt()
    async def greet(name: str) -> str:
        """Return a prompt that greets."""
        await journal.record_call("prompt greet", name=name)
        return f"Say hello to {name}."


class MockMcpServer(ToolJournal):
    """An MCP server over streamable HTTP on a free loopback port while its `async with` block runs.

    `url` is its MCP address. `calls` lists the tool calls, resource reads and prompts it received, in order. While
    `gate` is cleared, all of them wait. It keeps sessions, as the 2025 protocol allows, unless `stateless=True`.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        stateless: bool = False,
        json_response: bool = False,
        clock: Clock | None = None,
        may_crash: bool = False,
    ) -> None:
        super().__init__()
        self.url = ""
        self._host = host
        self._port = port
        self._server = _build(self, clock or SystemClock(), may_crash=may_crash)
        self._stateless = stateless
        self._json_response = json_response
        self._uvicorn: _QuietServer | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Start to listen, and set `url`."""
        listener = socket.create_server((self._host, self._port))
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else each answer is 40 ms late
        self._port = int(listener.getsockname()[1])
        app = self._server.streamable_http_app(
            stateless_http=self._stateless, json_response=self._json_response, host=self._host
        )
        config = uvicorn.Config(
            app, log_config=None, access_log=False, lifespan="on", timeout_graceful_shutdown=2, ws="none"
        )
        self._uvicorn = _QuietServer(config)
        self._task = asyncio.create_task(self._uvicorn.serve(sockets=[listener]))
        ready = asyncio.create_task(self._uvicorn.ready.wait())
        await asyncio.wait({ready, self._task}, return_when=asyncio.FIRST_COMPLETED)
        if not self._uvicorn.ready.is_set():
            ready.cancel()
            self._task.result()
            raise RuntimeError("the mock MCP server did not start; its log says why")
        self.url = f"http://{self._host}:{self._port}/mcp"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._uvicorn is not None and self._task is not None:
            self._uvicorn.should_exit = True
            await self._task

    async def wait_until_stopped(self) -> None:
        if self._task is not None:
            await asyncio.wait({self._task})


class _QuietServer(uvicorn.Server):
    """A uvicorn server within another program: it leaves signals alone and sets `ready` when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started:
            self.ready.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Abort open connections: an open stream would keep the server from stopping."""
        for connection in tuple(self.server_state.connections):
            connection.transport.abort()
        await super().shutdown(sockets=sockets)


async def _serve_stdio() -> None:
    await _build(ToolJournal(), SystemClock(), may_crash=True).run_stdio_async()


async def _serve_http(host: str, port: int) -> None:
    async with MockMcpServer(host=host, port=port, may_crash=True) as server:
        print(server.url, flush=True)  # noqa: T201 - the caller reads the address here
        await server.wait_until_stopped()


def main() -> None:
    """Run the mock MCP server until it is interrupted or its standard input ends."""
    parser = argparse.ArgumentParser(prog="python -m circadia.testing.mcp_upstream", description="Mock MCP server")
    transport = parser.add_mutually_exclusive_group(required=True)
    transport.add_argument("--stdio", action="store_true", help="speak over standard input and output")
    transport.add_argument("--port", type=int, help="speak streamable HTTP; 0: any free port; the URL is printed")
    parser.add_argument("--host", default="127.0.0.1")
    options = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve_stdio() if options.stdio else _serve_http(options.host, options.port))


if __name__ == "__main__":
    main()
