"""The operator's token: rotated over a running cluster, and shared by all members, however they start."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import pytest

from circadia.errors import StartError
from circadia.stores.locks import MEMBERS_KEY
from tests.interaction.live import ADMIN, Live, live
from tests.interaction.test_cluster import connected, list_members
from tests.interaction.test_mcp_door import call, session
from tests.interaction.test_sign_in import act, sign_in

pytestmark = pytest.mark.spec("CLU-16")

OLD, NEW = ADMIN, "new-token-of-the-operator-of-the-tests"
WAITING = (
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


async def require_both_work(servers: list[Live], agent_token: str, accepted: dict[str, list[bool]]) -> None:
    """Check that what one server seals is opened by all, and which operator's tokens each takes."""
    for maker in servers:
        token = next(each for each, takers in accepted.items() if all(takers))
        status, cookie = await sign_in(maker, token)
        assert status == 200
        session_id = await session(maker, agent_token)
        for at in servers:
            assert await act(at, "GET", "/api/v1/me", cookie) == 200
            headers = {"mcp-session-id": session_id, "mcp-protocol-version": "2025-06-18"}
            async with at.tool(agent_token, call("list_agents"), headers=headers) as answer:
                assert answer.status == 200, await answer.text()
    for token, takers in accepted.items():
        assert [(await at.rest("GET", "/me", token=token))[0] == 200 for at in servers] == takers


async def test_the_token_is_rotated_by_three_rolling_restarts_and_all_that_is_sealed_goes_on(
    tmp_path: Path, postgres_url: str
) -> None:
    async with AsyncExitStack() as both:
        stacks = [await both.enter_async_context(AsyncExitStack()) for _ in range(2)]
        tokens: list[tuple[str, ...]] = [(OLD,), (OLD,)]

        async def start(place: int) -> Live:
            folder, url = tmp_path / str(place), {"database_url": postgres_url}
            return await stacks[place].enter_async_context(live(folder, server=url, admin_tokens=tokens[place]))

        servers = [await start(place) for place in range(2)]
        agent_token = await servers[0].agent()
        cookie = (await sign_in(servers[0], OLD))[1]
        for given in ((OLD, NEW), (NEW, OLD), (NEW,)):
            for place in range(2):
                await stacks[place].aclose()
                tokens[place] = given
                servers[place] = await start(place)
                takes = {token: [token in each for each in tokens] for token in (OLD, NEW)}
                await require_both_work(servers, agent_token, takes)
                known = [await act(at, "GET", "/api/v1/me", cookie) for at in servers]
                assert known == [200 if OLD in each else 401 for each in tokens]


async def test_of_two_servers_with_different_tokens_that_start_at_one_instant_one_is_refused(
    tmp_path: Path, postgres_url: str
) -> None:
    async with AsyncExitStack() as stack, connected(postgres_url) as connection:

        async def start(token: str) -> Live:
            folder, url = tmp_path / token, {"database_url": postgres_url}
            return await stack.enter_async_context(live(folder, server=url, admin_tokens=(token,)))

        await connection.exec_driver_sql(f"SELECT pg_advisory_lock({MEMBERS_KEY.number})")
        starts = [asyncio.create_task(start(token)) for token in (OLD, NEW)]
        async with asyncio.timeout(60):  # both stand before the row that they are to write
            while (await connection.exec_driver_sql(WAITING)).scalar_one() < 2:
                await asyncio.sleep(0.01)
        await connection.exec_driver_sql(f"SELECT pg_advisory_unlock({MEMBERS_KEY.number})")
        started = await asyncio.gather(*starts, return_exceptions=True)
        (refused,) = [each for each in started if isinstance(each, BaseException)]
        assert isinstance(refused, StartError)
        assert "another operator's token" in refused.message
        (running,) = [each for each in started if isinstance(each, Live)]
        token = OLD if isinstance(started[0], Live) else NEW
        status, answer = await running.rest("GET", "/cluster", token=token)
        assert (status, len(answer["members"])) == (200, 1)


async def test_signing_out_takes_the_cookies_of_both_tokens_away(tmp_path: Path) -> None:
    async with live(tmp_path, admin_tokens=(NEW, OLD)) as at, aiohttp.ClientSession() as http:
        async with http.delete(f"{at.url}/ui/session") as answer:
            names = [each.partition("=")[0] for each in answer.headers.getall("set-cookie")]
        assert len(set(names)) == 2
        assert (await sign_in(at, NEW))[1].startswith(f"{names[0]}=")
        assert len(await list_members(at)) <= 1
