"""A gateway that cannot reach PostgreSQL: what needs it is refused, and the rest passes for a while."""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from circadia.records.member import Role
from circadia.stores.postgres import open_postgres
from circadia.testing.clock import ManualClock
from circadia.testing.mcp_upstream import MockMcpServer
from tests.fixtures.database_line import DatabaseLine, database_line
from tests.fixtures.postgres import PostgresServer
from tests.gateway.bound_agent import chat
from tests.interaction.live import Live, live
from tests.interaction.test_cluster import pass_seconds
from tests.interaction.test_mcp_door import call

pytestmark = pytest.mark.spec("CLU-17")
GRACE_SECONDS = 30
"""The default of `server.auth_grace_seconds`."""
MARGIN_SECONDS = 5
"""The last look at the database may be some seconds old when it goes away."""
ANSWER_SECONDS = 20.0
"""Far more than any bound of a call, and less than the 30 s after which a driver gives up."""
HISTORY = chat("Hello.", "Hello, who is it?", "Ann.")

Outage = Callable[[DatabaseLine], None]


async def send(at: Live, token: str, body: object = HISTORY) -> tuple[int, str | None]:
    """Make a model call; return its status and when to try it again."""
    async with asyncio.timeout(ANSWER_SECONDS), at.call(token, body=body) as response:
        await response.read()
        return response.status, response.headers.get("retry-after")


async def use_tool(at: Live, token: str) -> int:
    async with asyncio.timeout(ANSWER_SECONDS), at.tool(token, call("echo", text="x"), server="/echo") as response:
        await response.read()
        return response.status


def require_refusal(answer: tuple[int, str | None]) -> None:
    status, retry_after = answer
    assert status == 503
    assert retry_after is not None
    assert int(retry_after) >= 1


@asynccontextmanager
async def gateway(
    folder: Path, server: PostgresServer, url: str, **sections: Any
) -> AsyncGenerator[tuple[Live, ManualClock, DatabaseLine]]:
    clock = ManualClock()
    async with database_line(server) as line, MockMcpServer(stateless=True) as tools:
        sections = {"database_url": line.build_url(url), **sections}
        servers = {"echo": {"url": tools.url}}
        async with live(folder, role=Role.GATEWAY, clock=clock, server=sections, mcp_servers=servers) as at:
            try:
                yield at, clock, line
            finally:
                line.restore()


@pytest.mark.parametrize("outage", [DatabaseLine.stall, DatabaseLine.cut], ids=["stalled", "cut"])
async def test_without_the_database_awake_agents_pass_for_the_grace_time_and_budgets_refuse_at_once(
    tmp_path: Path, postgres_server: PostgresServer, postgres_url: str, outage: Outage
) -> None:
    async with gateway(tmp_path, postgres_server, postgres_url) as (at, clock, line):
        free = {name: await at.agent(name, **policy) for name, policy in (("ann", {}), ("cid", {"bank": "team"}))}
        limited = await at.agent("bob", max_calls_per_day=100)
        await pass_seconds(clock, at, 3)  # from here on the gateway has seen that they were added
        for token in (*free.values(), limited):
            assert (await send(at, token))[0] == 200
        assert await use_tool(at, free["ann"]) == 200
        outage(line)
        require_refusal(await send(at, limited))
        require_refusal(await send(at, "crc_a-token-that-is-not-cached"))
        assert len(at.upstream.requests) == 3
        for seconds in (0, GRACE_SECONDS - MARGIN_SECONDS):
            clock.advance(seconds)
            for token in free.values():
                assert (await send(at, token))[0] == 200, "an awake agent without budgets passes"
            assert await use_tool(at, free["ann"]) == 200
        clock.advance(MARGIN_SECONDS + 1)
        for token in free.values():
            require_refusal(await send(at, token))
        assert await use_tool(at, free["ann"]) == 503
        line.restore()
        for token in (*free.values(), limited):
            async with asyncio.timeout(60):
                while (await send(at, token))[0] != 200:
                    clock.advance(1)


@pytest.mark.setting("server.auth_grace_seconds")
async def test_the_grace_time_is_a_setting(tmp_path: Path, postgres_server: PostgresServer, postgres_url: str) -> None:
    async with gateway(tmp_path, postgres_server, postgres_url, auth_grace_seconds=300) as (at, clock, line):
        ann = await at.agent()
        await pass_seconds(clock, at, 3)
        assert (await send(at, ann))[0] == 200
        line.cut()
        clock.advance(300 - MARGIN_SECONDS)
        assert (await send(at, ann))[0] == 200
        clock.advance(MARGIN_SECONDS + 1)
        require_refusal(await send(at, ann))


@pytest.mark.parametrize("outage", [DatabaseLine.stall, DatabaseLine.cut], ids=["stalled", "cut"])
async def test_a_paid_stream_goes_on_and_the_owner_of_its_ids_is_stored_once_the_database_is_back(
    tmp_path: Path, postgres_server: PostgresServer, postgres_url: str, outage: Outage
) -> None:
    body = {"model": "gpt-5-mini", "input": "hello", "stream": True}
    async with gateway(tmp_path, postgres_server, postgres_url) as (at, clock, line):
        ann, bob = await at.agent(), await at.agent("bob")
        await pass_seconds(clock, at, 3)
        assert (await send(at, ann))[0] == 200
        outage(line)
        answers: list[bytes] = []
        for _ in range(2):
            async with asyncio.timeout(ANSWER_SECONDS), at.call(ann, "/v1/responses", body) as response:
                answers.append(await response.read())
        assert all(b"event: response.completed" in answer for answer in answers)
        line.restore()
        found = [re.search(rb'"id": ?"(resp_[^"]+)"', answer) for answer in answers]
        ids = [match[1].decode() for match in found if match]
        store = await open_postgres(postgres_url)
        async with asyncio.timeout(60):
            for provider_id in ids:
                while True:
                    clock.advance(1)
                    await asyncio.sleep(0.01)
                    async with store.begin_read() as tx:
                        if await tx.provider_ids.owner("openai", provider_id) is not None:
                            break
        await store.close()
        assert len(ids) == 2
        for token, status in ((ann, 200), (bob, 404)):
            async with at.call(token, f"/v1/responses/{ids[0]}", None, method="GET") as response:
                assert response.status == status
