"""One server with short limits in front of mock providers, shared by the tests of a module."""

import itertools
import sys
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from circadia.testing.mcp_upstream import MockMcpServer
from circadia.testing.upstream import MockUpstream
from tests.fixtures.server_process import CircadiaProcess

GRACE_SECONDS = 0.2
SILENT_SECONDS = 0.5
KEEP_ALIVE_SECONDS = 0.2
LONG_ENOUGH_SECONDS = 1.0
"""A hold this old is past both limits and, once it is opened, has had several signs of life."""
PROVIDER_KEY = "key-of-the-provider"
REPLY = "the right answer"
CHILD = [sys.executable, "-m", "circadia.testing.mcp_upstream", "--stdio"]


def server_config(
    upstream: MockUpstream, tools: MockMcpServer, json_tools: MockMcpServer, **defaults: float
) -> dict[str, Any]:
    """Return a configuration with both providers, all kinds of MCP server, and no retries of its own."""
    provider = {"base_url": upstream.base_url, "key_env": "PROVIDER_KEY", "retries": 0}
    servers: dict[str, Any] = {
        "child": {"command": CHILD},
        "own_child": {"command": CHILD, "per_agent": True},
        "tools": {"url": tools.url},
        "json": {"url": json_tools.url},
    }
    return {
        "upstreams": {
            "openai": {**provider, "api": "openai"},
            "anthropic": {**provider, "api": "anthropic"},
            "azure": {**provider, "key_header": "api-key"},
        },
        "mcp_servers": servers,
        "defaults": defaults,
    }


@dataclass(frozen=True, kw_only=True)
class Stage:
    """The running server, what stands behind it, and agents on demand."""

    server: CircadiaProcess
    upstream: MockUpstream
    tools: MockMcpServer
    json_tools: MockMcpServer
    """Keeps no sessions and answers in JSON, not in streams."""
    names: Iterator[int]

    async def agent(self, *, asleep: bool, **fields: Any) -> "StageAgent":
        """Make a fresh session with one agent, and forget what the upstreams saw before."""
        session = f"s{next(self.names)}"
        events = {"sleep_events": ["agent_started"] if asleep else [], "wake_events": ["mentioned"]}
        tokens = await self.server.create_session(session, [{"name": "worker", **events, **fields}])
        self.upstream.requests.clear()
        self.upstream.cancelled.clear()
        self.tools.calls.clear()
        self.json_tools.calls.clear()
        return StageAgent(stage=self, session=session, token=tokens["worker"])


@dataclass(frozen=True, kw_only=True)
class StageAgent:
    """One agent of the stage."""

    stage: Stage
    session: str
    token: str

    async def held(self, *, seconds: float = 0.0) -> dict[str, Any]:
        """Wait until exactly one call of this agent is held, for at least so long, and return the hold."""
        return await self.stage.server.held_by(self.session, "worker", seconds=seconds)

    async def held_long(self) -> dict[str, Any]:
        """Wait until the call is held past all limits and its caller was given signs of life; return the hold."""
        return await self.stage.server.held_by(self.session, "worker", seconds=LONG_ENOUGH_SECONDS, opened=True)

    async def wake(self) -> None:
        await self.stage.server.put_sleeping(self.session, "worker", False)

    async def sleep(self) -> None:
        await self.stage.server.put_sleeping(self.session, "worker", True)


@pytest.fixture(scope="module")
def short_limits() -> dict[str, float]:
    """Limits of the stage's holds; a module overrides this fixture where it needs others."""
    return {
        "hold_grace_seconds": GRACE_SECONDS,
        "hold_silent_seconds": SILENT_SECONDS,
        "keep_alive_seconds": KEEP_ALIVE_SECONDS,
    }


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory, short_limits: dict[str, float]) -> AsyncGenerator[Stage]:
    folder: Path = tmp_path_factory.mktemp("stage")
    async with (
        MockUpstream(key=PROVIDER_KEY, reply=REPLY) as upstream,
        MockMcpServer() as tools,
        MockMcpServer(stateless=True, json_response=True) as json_tools,
        CircadiaProcess(
            folder, server_config(upstream, tools, json_tools, **short_limits), env={"PROVIDER_KEY": PROVIDER_KEY}
        ) as server,
    ):
        yield Stage(server=server, upstream=upstream, tools=tools, json_tools=json_tools, names=itertools.count(1))
