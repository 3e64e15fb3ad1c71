"""A real server in front of a mock provider, with one agent, as a reader of the docs has it before an example."""

import contextlib
import os
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path

from circadia.testing.upstream import MockUpstream
from tests.fixtures.server_process import ADMIN_TOKEN, CircadiaProcess

AGENT = "helper"
APIS = ("openai", "anthropic")
KEY = "key-of-the-provider"


@contextlib.asynccontextmanager
async def live_server(folder: Path) -> AsyncGenerator[Mapping[str, str]]:
    """Run `circadia serve` in `folder` and yield the environment that the docs tell a reader to set."""
    async with MockUpstream(key=KEY) as upstream:
        providers = {name: {"base_url": upstream.base_url, "api": name, "key_env": "KEY"} for name in APIS}
        async with CircadiaProcess(folder, {"upstreams": providers}, env={"KEY": KEY}) as server:
            token = (await server.call("POST", "/sessions/default/agents", {"name": AGENT}))["token"]
            yield {**os.environ, "CIRCADIA_ADMIN_TOKEN": ADMIN_TOKEN, **_as_the_docs_say(server.url, token)}


def _as_the_docs_say(url: str, token: str) -> dict[str, str]:
    """Return the variables of the agent's programs."""
    return {
        "CIRCADIA_URL": url,
        "OPENAI_BASE_URL": f"{url}/llm/openai/v1",
        "OPENAI_API_KEY": token,
        "ANTHROPIC_BASE_URL": f"{url}/llm/anthropic",
        "ANTHROPIC_API_KEY": token,
        "MCP_URL": f"{url}/mcp",
        "MCP_TOKEN": token,
    }
