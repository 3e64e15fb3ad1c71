"""Who waits for one busy agent does not hold up those who have nothing to do with it."""

import asyncio
from pathlib import Path
from typing import Any, Final

import pytest

from circadia.ids import AgentId
from circadia.stores.locks import agent_key
from circadia.stores.postgres import open_postgres
from circadia.stores.sql_store import SqlStore
from tests.cluster.doors import count_waiters
from tests.interaction.live import live

MESSAGES: Final = 20
"""More than a server has connections for writing, which are 8."""


@pytest.mark.spec("LARGE-134")
@pytest.mark.parametrize("way", ["direct", "threads", "thread", "sleep"])
async def test_messages_to_a_busy_agent_leave_the_connections_for_writing_to_others(
    tmp_path: Path, postgres_url: str, late_locks: dict[str, str], way: str
) -> None:
    async with live(tmp_path, server={"database_url": postgres_url}) as at:
        for name in ("ann", "bob"):
            await at.agent(name)
        agents = (await at.rest("GET", "/sessions/default/agents"))[1]["agents"]
        key = agent_key(next(AgentId(agent["id"]) for agent in agents if agent["name"] == "bob"))
        threads = [
            (await at.rest("POST", "/sessions/default/threads", {"name": f"t{number}", "participants": ["bob"]}))[1][
                "id"
            ]
            for number in range(MESSAGES)
        ]

        async def send(number: int) -> tuple[int, Any]:
            if way == "direct":
                return await at.rest("POST", "/messages", {"to": "bob", "content": "look"})
            if way == "sleep":
                return await at.rest("PUT", "/sessions/default/agents/bob/sleeping", {"sleeping": bool(number % 2)})
            thread = threads[number if way == "threads" else 0]
            return await at.rest("POST", f"/sessions/default/threads/{thread}/messages", {"content": "look"})

        store = await open_postgres(postgres_url)
        assert isinstance(store, SqlStore)
        async with asyncio.timeout(60), store.writer.begin([key]) as block:
            await block.run(count_waiters)
            sent = [asyncio.create_task(send(number)) for number in range(MESSAGES)]
            while not await block.run(count_waiters):
                await asyncio.sleep(0.01)
            for number in range(5):
                status, _ = await at.rest("POST", "/messages", {"to": "ann", "content": f"{number}"})
                assert status == 201
            assert not any(task.done() for task in sent)
        assert {status for status, _ in await asyncio.gather(*sent)} <= {200, 201}
        await store.close()
    assert not late_locks
