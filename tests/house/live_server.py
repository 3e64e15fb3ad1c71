"""A real server in front of a mock provider, with one agent, as a reader of the docs has it before an example."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path

import aiohttp
import yaml

from circadia.testing.upstream import MockUpstream

ADMIN_TOKEN = "operator-token-of-the-examples"
AGENT = "helper"
APIS = ("openai", "anthropic")
START_SECONDS = 30.0
STOP_SECONDS = 15.0


@contextlib.asynccontextmanager
async def live_server(folder: Path) -> AsyncGenerator[Mapping[str, str]]:
    """Run `circadia serve` in `folder` and yield the environment that the docs tell a reader to set."""
    async with MockUpstream(key="key-of-the-provider") as upstream:
        config = folder / "circadia.yaml"
        providers = {name: {"base_url": upstream.base_url, "api": name, "key_env": "KEY"} for name in APIS}
        config.write_text(yaml.safe_dump({"server": {"port": 0}, "upstreams": providers}), "utf-8")
        environment = {**os.environ, "CIRCADIA_ADMIN_TOKEN": ADMIN_TOKEN, "KEY": "key-of-the-provider"}
        process = await asyncio.create_subprocess_exec(
            *(str(Path(sys.executable).with_name("circadia")), "serve"),
            *("--config", str(config), "--data", str(folder / "data"), "--port", "0"),
            env=environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        drain: asyncio.Task[bytes] | None = None
        try:
            url = await asyncio.wait_for(_announced(process), START_SECONDS)
            assert process.stdout is not None
            drain = asyncio.create_task(process.stdout.read())
            yield {**environment, **await _as_the_docs_say(url)}
        finally:
            if process.returncode is None:
                process.terminate()
            await asyncio.wait_for(process.wait(), STOP_SECONDS)
            if drain is not None:
                await drain


async def _announced(process: asyncio.subprocess.Process) -> str:
    """Return the address that the server prints once it listens."""
    assert process.stdout is not None
    said: list[str] = []
    async for raw in process.stdout:
        said.append(raw.decode())
        for word in said[-1].split():
            if word.startswith("http://127.0.0.1:"):
                return word.rstrip("/.,")
    raise AssertionError(f"the server ended before it listened: {''.join(said)}")


async def _as_the_docs_say(url: str) -> dict[str, str]:
    """Add the agent and return the variables of its programs."""
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {ADMIN_TOKEN}"}) as http:
        async with http.post(f"{url}/api/v1/sessions/default/agents", json={"name": AGENT}) as answer:
            assert answer.status < 300, await answer.text()
            token = (await answer.json())["token"]
    return {
        "CIRCADIA_URL": url,
        "OPENAI_BASE_URL": f"{url}/llm/openai/v1",
        "OPENAI_API_KEY": token,
        "ANTHROPIC_BASE_URL": f"{url}/llm/anthropic",
        "ANTHROPIC_API_KEY": token,
        "MCP_URL": f"{url}/mcp",
        "MCP_TOKEN": token,
    }
