"""A whole server in the test's own event loop, with a mock provider behind it, seen through its public doors."""

import asyncio
import json
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp

from circadia.clock import Clock
from circadia.gateway.calls.upstream import sendable_body
from circadia.records.member import Role
from circadia.server.app import Listener, bind_socket, reachable_address
from circadia.server.wiring import Server, build_server
from circadia.settings import settings_from
from circadia.telemetry.traces import Traces
from circadia.testing.upstream import MockUpstream
from tests.fixtures.database_file import put_database
from tests.fixtures.documented import check_answer
from tests.fixtures.listening import Prompt
from tests.recording.loop_watch import LoopWatch

ADMIN = "operator-token-of-the-tests"
KEY = "sk-key-of-the-provider-0123456789"
FAST = {"hold_grace_seconds": 0.1, "hold_silent_seconds": 0.2, "keep_alive_seconds": 0.1}
STOOD_STILL = "idle-in-transaction timeout"
CHAT = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "hello"}]}


@dataclass
class Live:
    """A running server."""

    url: str
    upstream: MockUpstream
    server: Server
    http: aiohttp.ClientSession
    listener: Listener

    async def rest(self, method: str, path: str, body: object = None, *, token: str = ADMIN) -> tuple[int, Any]:
        """Return status and parsed body of a REST call.

        Where a busy machine stood still in a transaction for 2 s, the call is made again (CLU-24).
        """
        headers = {"authorization": f"Bearer {token}"}
        while True:
            async with self.http.request(method, f"{self.url}/api/v1{path}", json=body, headers=headers) as response:
                text, status = await response.text(), response.status
                parsed = json.loads(text) if text else None
                where, kind = response.url.path, response.content_type
                check_answer(method, where, status, response.headers, parsed, content_type=kind)
                if status != 503 or STOOD_STILL not in text:
                    return status, parsed

    async def agent(self, name: str = "ann", **policy: object) -> str:
        """Make an agent in the session `default` and return its token."""
        status, made = await self.rest("POST", "/sessions/default/agents", {"name": name, "policy": policy})
        assert status == 201, made
        return made["token"]

    async def sleeping(self, asleep: bool, name: str = "ann") -> None:
        """Put an agent to sleep or wake it."""
        status, answer = await self.rest("PUT", f"/sessions/default/agents/{name}/sleeping", {"sleeping": asleep})
        assert status == 200, answer

    async def held(self, count: int) -> list[dict[str, Any]]:
        """Return the held calls once there are so many."""
        async with asyncio.timeout(60):
            while True:
                holds = (await self.rest("GET", "/holds"))[1]["holds"]
                if len(holds) == count:
                    return holds
                await asyncio.sleep(0.01)

    async def events(self, *types: str) -> list[dict[str, Any]]:
        """Return the events of these types, all written."""
        await self.server.journal.flush()
        events = (await self.rest("GET", "/events?after=0&limit=1000"))[1]["events"]
        return [event for event in events if not types or event["type"] in types]

    async def usage(self, by: str = "agent") -> list[dict[str, Any]]:
        """Return the usage report, all written."""
        await self.server.journal.flush()
        return (await self.rest("GET", f"/usage?group_by={by}"))[1]["usage"]

    def call(
        self,
        token: str,
        path: str = "/v1/chat/completions",
        body: object = CHAT,
        *,
        upstream: str = "openai",
        method: str = "POST",
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Return a pending model call."""
        data = sendable_body(body if isinstance(body, bytes | None) else json.dumps(body).encode())
        sent = {"authorization": f"Bearer {token}", "content-type": "application/json", **(headers or {})}
        return self.http.request(method, f"{self.url}/llm/{upstream}{path}", data=data, headers=sent)

    async def called(self, token: str, body: object) -> bytes:
        """Make a model call with this body and return its answer."""
        async with self.call(token, body=body) as response:
            return await response.read()

    async def answered(self, token: str) -> tuple[int, dict[str, Any]]:
        """Make a model call and return the status and the document of its answer."""
        async with self.call(token) as response:
            return response.status, await response.json()

    def tool(self, token: str, message: object, *, server: str = "", headers: Mapping[str, str] | None = None) -> Any:
        """Return a pending MCP call."""
        sent = {
            "authorization": f"Bearer {token}", "content-type": "application/json",
            "accept": "application/json, text/event-stream", **(headers or {}),
        }  # fmt: skip
        data = sendable_body(message if isinstance(message, bytes) else json.dumps(message).encode())
        return self.http.post(f"{self.url}/mcp{server}", data=data, headers=sent)


class PromptListener(Listener, Prompt):
    """The server's own listener, which stops at once."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        with Prompt.capture_signals(self):
            yield


def _keep_slow(kept: list[str], seconds: float, stack: str) -> None:
    """Keep what the server does; tests themselves may take their time."""
    if "/src/circadia/" in stack:
        kept.append(f"{seconds * 1000:.0f} ms of the loop's thread in one callback:\n{stack}")


@asynccontextmanager
async def live(
    folder: Path,
    *,
    defaults: Mapping[str, object] | None = None,
    environment: Mapping[str, str] | None = None,
    upstream: Mapping[str, object] | None = None,
    traces: Traces | None = None,
    clock: Clock | None = None,
    timings: Mapping[str, object] = FAST,
    provider: MockUpstream | None = None,
    role: Role = Role.ALL,
    admin_tokens: tuple[str, ...] = (ADMIN,),
    **sections: Any,
) -> AsyncGenerator[Live]:
    """Run a server with the mock provider as `openai` and `anthropic`, with short timings.

    Without a `clock` time passes by itself. A `provider` that runs already is what several starts share.
    """
    folder.mkdir(parents=True, exist_ok=True)
    put_database(folder)
    provided = MockUpstream(key=KEY) if provider is None else nullcontext(provider)
    plain = aiohttp.ClientSession(auto_decompress=False, skip_auto_headers=("Accept-Encoding",))
    async with provided as mock, plain as http:
        base = {"base_url": mock.base_url, "key_env": "KEY", **(upstream or {})}
        given = {
            "upstreams": {"openai": base, "anthropic": {**base, "api": "anthropic"}},
            "defaults": {**timings, **(defaults or {})},
            **sections,
        }
        secrets = {"KEY": KEY, "PATH": "/usr/bin:/bin", **(environment or {})}
        with bind_socket("127.0.0.1", 0) as bound:
            settings = settings_from(given)
            building = build_server(
                settings, folder, secrets, admin_tokens,
                address=reachable_address(bound), traces=traces, clock=clock, role=role,
            )  # fmt: skip
            async with building as server:
                listener = PromptListener(server, bound, drain_seconds=min(2.0, settings.server.drain_seconds))
                serving = asyncio.create_task(listener.serve(sockets=[bound]))
                await listener.ready.wait()
                slow: list[str] = []
                watch = LoopWatch(asyncio.get_running_loop(), partial(_keep_slow, slow))
                try:
                    yield Live(listener.url, mock, server, http, listener)
                finally:
                    listener.stop()
                    await serving
                    watch.stop()
                assert not slow, "\n".join(slow)


__all__ = ["ADMIN", "CHAT", "FAST", "KEY", "Live", "live"]
