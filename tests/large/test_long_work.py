"""Work over much that is stored stops nobody: no callback of the event loop takes more than 50 ms.

The servers are watched: what takes longer fails the test at its end, with the stack.
"""

import pytest

from tests.fixtures.server_process import CircadiaProcess

pytestmark = [pytest.mark.spec("LARGE-04"), pytest.mark.timeout(300)]
TEAM = "/banks/team"


async def test_forgetting_and_removing_in_a_large_world(world_server: CircadiaProcess) -> None:
    rest = world_server.call
    episode = (await rest("GET", f"{TEAM}/episodes?limit=1"))["episodes"][0]["id"]
    counts = await rest("POST", f"{TEAM}/forget", {"ids": [episode]})
    assert counts["episodes"] == 1
    await rest("PATCH", TEAM, {"policy": {"keep_days": 30}})
    await rest("DELETE", TEAM)
    assert not [bank for bank in (await rest("GET", "/banks?limit=1000"))["banks"] if bank["name"] == "team"]
