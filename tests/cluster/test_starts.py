"""Servers with the same configuration file start at the same time."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.interaction.live import Live, live

pytestmark = pytest.mark.spec("CLU-01")

SERVERS = 3
NAMES = [f"agent{number}" for number in range(6)]
FILE: dict[str, Any] = {
    "agents": {name: {"bank": f"bank{number % 4}"} for number, name in enumerate(NAMES)},
    "banks": {f"bank{number}": {"description": "of the file"} for number in range(4)},
}


async def test_servers_that_start_together_create_the_agents_and_banks_of_their_file_once(
    tmp_path: Path, postgres_url: str, late_locks: dict[str, str]
) -> None:
    async with AsyncExitStack() as stack:

        async def start(number: int) -> Live:
            folder = tmp_path / f"{number}"
            return await stack.enter_async_context(live(folder, server={"database_url": postgres_url}, **FILE))

        servers = await asyncio.gather(*(start(number) for number in range(SERVERS)))
        for server in servers:
            agents = (await server.rest("GET", "/sessions/default/agents"))[1]["agents"]
            assert sorted(agent["name"] for agent in agents) == NAMES
            assert all(agent["in_file"] for agent in agents)
            banks = (await server.rest("GET", "/banks"))[1]["banks"]
            assert [bank["name"] for bank in banks] == sorted(FILE["banks"])
        late = await stack.enter_async_context(live(tmp_path / "late", server={"database_url": postgres_url}, **FILE))
        assert len((await late.rest("GET", "/sessions/default/agents"))[1]["agents"]) == len(NAMES)
    assert not late_locks
