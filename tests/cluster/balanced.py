"""Two gateways on one PostgreSQL behind a balancer that sends each request to the other one in turn."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from circadia.records.member import Role
from circadia.testing.upstream import MockUpstream
from tests.fixtures.balancer import GATEWAY_HEADER, balance
from tests.interaction.live import KEY, Live, live


@dataclass
class Balanced:
    url: str
    here: Live
    there: Live
    answers: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """Number of answers by method and gateway, of the clients opened here."""

    @asynccontextmanager
    async def open_client(
        self, token: str, server: str = "", era: str = "legacy", **more: Any
    ) -> AsyncGenerator[Client]:
        """Connect an official MCP client through the balancer."""

        async def count(response: httpx2.Response) -> None:
            self.answers[response.request.method, response.headers[GATEWAY_HEADER]] += 1

        headers = {"authorization": f"Bearer {token}"}
        # It speaks plain HTTP: to load the authorities of TLS would take longer than most calls.
        async with httpx2.AsyncClient(
            headers=headers, timeout=60, trust_env=False, verify=False, event_hooks={"response": [count]}
        ) as http:
            transport = streamable_http_client(f"{self.url}/mcp{server}", http_client=http)
            async with Client(transport, mode=era, **more) as client:
                yield client

    async def count_holds(self) -> tuple[int, ...]:
        """Return the number of calls that either gateway holds for a sleeping agent."""
        answers = [await gateway.rest("GET", "/holds") for gateway in (self.here, self.there)]
        return tuple(len(answer["holds"]) for _, answer in answers)

    async def wait_for_holds(self, count: int) -> None:
        """Return once both gateways together hold so many calls."""
        async with asyncio.timeout(60):
            while self.here.server.waiting() + self.there.server.waiting() != count:
                await asyncio.sleep(0.01)


@asynccontextmanager
async def balanced_gateways(folder: Path, url: str, **sections: Any) -> AsyncGenerator[Balanced]:
    sections = {"server": {"database_url": url}, "role": Role.GATEWAY, **sections}
    async with (
        MockUpstream(key=KEY) as provider,
        live(folder / "here", provider=provider, **sections) as here,
        live(folder / "there", provider=provider, **sections) as there,
        balance(folder, [here.url, there.url]) as balancer,
    ):
        yield Balanced(balancer, here, there)
