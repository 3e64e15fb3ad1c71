"""Two whole servers on one PostgreSQL: what is done to an agent at one holds at the other."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import pytest

from tests.interaction.live import Live, live

pytestmark = pytest.mark.spec("GATE-42")
KNOWN_SECONDS = 10.0
"""Far more than the second between two looks, for a machine that is busy."""


@asynccontextmanager
async def two(folder: Path, url: str) -> AsyncGenerator[tuple[Live, Live]]:
    section = {"database_url": url}
    async with live(folder / "here", server=section) as here, live(folder / "there", server=section) as there:
        yield here, there


async def status(at: Live, token: str) -> int:
    async with at.call(token, "/v1/models", None, method="GET") as response:
        return response.status


async def refused(at: Live, token: str) -> None:
    """Return once the token opens nothing there."""
    async with asyncio.timeout(KNOWN_SECONDS):
        while await status(at, token) not in (401, 403):
            await asyncio.sleep(0.05)


async def released(at: Live, token: str) -> None:
    """Make a call, and return once it has ended without an answer of the model."""
    with suppress(aiohttp.ClientPayloadError):  # broken off, which is what is left once whitespace has gone out
        async with at.call(token) as response:
            text = await response.text()
            assert response.status != 200 or "error" in text


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [("DELETE", "", None), ("PATCH", "", {"enabled": False}), ("POST", "/token", None)],
    ids=["deleted", "disabled", "a new token"],
)
async def test_a_token_that_ends_at_one_server_ends_at_the_other_and_so_do_its_held_calls(
    tmp_path: Path, postgres_url: str, method: str, path: str, body: object
) -> None:
    async with two(tmp_path, postgres_url) as (here, there):
        token = await here.agent()
        assert await status(there, token) == 200
        await here.sleeping(True)
        held = asyncio.create_task(released(there, token))
        await there.held(1)
        assert (await here.rest(method, f"/sessions/default/agents/ann{path}", body))[0] < 300
        await refused(there, token)
        if path:  # a held call is looked at again when it would be admitted
            await here.sleeping(False)
        async with asyncio.timeout(KNOWN_SECONDS):
            await held
        await there.held(0)
        assert [each.path for each in there.upstream.requests if each.path.endswith("completions")] == []
