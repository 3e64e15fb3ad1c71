"""Two gateways on one PostgreSQL behind a balancer, of which the first one is to stop."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp

from circadia.testing.upstream import MockUpstream
from tests.fixtures.balancer import GATEWAY_HEADER, balance
from tests.fixtures.server_process import CircadiaProcess

REPLY: Final = "the right answer"
QUICK: Final = {"hold_grace_seconds": 0.1, "hold_silent_seconds": 60.0, "keep_alive_seconds": 0.1}
"""Streams are opened at once, other calls never."""
NOTHING: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The gateways, their balancer and their provider."""

    url: str
    stopping: CircadiaProcess
    staying: CircadiaProcess
    provider: MockUpstream
    http: aiohttp.ClientSession

    async def add_sleeper(self) -> str:
        """Add an agent that sleeps and return its token."""
        agents = [{"name": "ann", "sleep_events": ["agent_started"]}]
        return (await self.staying.create_session("team", agents))["ann"]

    async def wake(self) -> None:
        await self.staying.put_sleeping("team", "ann", False)

    def chat(self, url: str, token: str, *, stream: bool = False) -> Any:
        """Return a pending model call of a client that never tries again."""
        body = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "stream": stream}
        headers = {"authorization": f"Bearer {token}"}
        return self.http.post(f"{url}/llm/openai/v1/chat/completions", json=body, headers=headers)

    async def wait_until_balanced(self, gateways: set[str]) -> None:
        """Wait until the balancer sends requests to these gateways."""
        seen: list[str] = []
        async with asyncio.timeout(60):
            while len(seen) < 20 or set(seen[-20:]) != gateways:
                async with self.http.get(f"{self.url}/healthz") as answer:
                    seen.append(answer.headers.get(GATEWAY_HEADER, ""))

    async def wait_until_draining(self) -> None:
        async with asyncio.timeout(60):
            while (await self.probe())[0] != 503:
                await asyncio.sleep(0.01)

    async def probe(self) -> tuple[int, str]:
        async with self.http.get(f"{self.stopping.url}/readyz") as answer:
            return answer.status, await answer.text()


@asynccontextmanager
async def two_gateways(
    folder: Path,
    url: str,
    *,
    changes: Mapping[str, str] = NOTHING,
    server: Mapping[str, Any] = NOTHING,
    defaults: Mapping[str, float] = QUICK,
    role: str = "gateway",
    **sections: Any,
) -> AsyncGenerator[Pair]:
    async with MockUpstream(reply=REPLY) as provider, aiohttp.ClientSession() as http:
        base: dict[str, Any] = {"base_url": provider.base_url, "retries": 0}
        config = {
            "server": {"database_url": url, **server},
            "upstreams": {"openai": base, "anthropic": {**base, "api": "anthropic"}},
            "defaults": dict(defaults),
            **sections,
        }
        gateways = [CircadiaProcess(folder / name, config, options=["--role", role]) for name in ("a", "b")]
        for gateway in gateways:
            gateway.folder.mkdir()
        async with gateways[0] as stopping, gateways[1] as staying:
            async with balance(folder, [stopping.url, staying.url], changes=changes) as balanced:
                pair = Pair(url=balanced, stopping=stopping, staying=staying, provider=provider, http=http)
                await pair.wait_until_balanced({"0", "1"})
                yield pair
