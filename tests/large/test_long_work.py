"""Work over much that is stored stops nobody: no callback of the event loop takes more than 50 ms.

The servers are watched: what takes longer fails the test at its end, with the stack.
"""

import asyncio
import io
import json
from typing import Final

import aiohttp
import pytest

from tests.fixtures.server_process import CircadiaProcess

pytestmark = [pytest.mark.spec("LARGE-04"), pytest.mark.timeout(900)]
TEAM: Final = "/banks/team"
IMPORTED_LINES: Final = 1_000
"""What a request may have."""


async def test_forgetting_and_removing_in_a_large_world(world_server: CircadiaProcess) -> None:
    rest = world_server.call
    episode = (await rest("GET", f"{TEAM}/episodes?limit=1"))["episodes"][0]["id"]
    counts = await rest("POST", f"{TEAM}/forget", {"ids": [episode]})
    assert counts["episodes"] == 1
    await rest("DELETE", TEAM)
    assert not [bank for bank in (await rest("GET", "/banks?limit=1000"))["banks"] if bank["name"] == "team"]


async def test_a_large_bank_is_exported_while_it_is_searched_and_1000_lines_of_it_are_imported(
    world_server: CircadiaProcess,
) -> None:
    async with aiohttp.ClientSession(headers=world_server.admin) as client:

        async def export() -> bytes:
            async with client.get(f"{world_server.url}/api/v1{TEAM}/export") as answer:
                assert answer.status == 200
                return await answer.read()

        exporting = asyncio.create_task(export())
        while not exporting.done():
            await world_server.call("GET", f"{TEAM}/search?q=porto")
        head, *lines = (await exporting).splitlines(keepends=True)
        imported = [head, *lines[: IMPORTED_LINES - 1]]
        await world_server.call("DELETE", TEAM)
        async with client.post(
            f"{world_server.url}/api/v1{TEAM}/import", data=io.BytesIO(b"".join(imported))
        ) as answer:
            assert answer.status == 200, await answer.text()
    stored = (await world_server.call("GET", TEAM))["episodes"]
    assert stored == sum(json.loads(line)["type"] == "episode" for line in imported) > 0


async def test_a_bank_that_keeps_30_days_forgets_what_is_older(world_server: CircadiaProcess) -> None:
    before = (await world_server.call("GET", TEAM))["episodes"]
    await world_server.call("PATCH", TEAM, {"policy": {"keep_days": 30}})
    await world_server.restart()  # it looks at the start, and then each hour
    world_server.end_warm_up()
    while (await world_server.call("GET", TEAM))["episodes"] > before - 400:
        await asyncio.sleep(0.2)
