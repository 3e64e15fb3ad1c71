"""Of stdio servers with a child per agent, nothing is left of an agent that is idle."""

import asyncio
import gc

import pytest

from circadia.gateway.mcp.child import ChildSupervisor
from tests.gateway.test_mcp_stdio import at, ended, pid
from tests.mcp_server.manual_clock import ManualClock


@pytest.mark.spec("GATE-75")
async def test_of_an_idle_agent_nothing_is_left_with_a_child_per_agent() -> None:
    clock = ManualClock()
    async with at(clock=clock, per_agent=True, idle_seconds=100) as here:
        children: list[int] = []
        for number in range(3):
            async with here.client(name=f"agent{number}") as client:
                children.append(await pid(client))
        assert count_supervisors() == 3
        await clock.sleepers(3)
        clock.advance(101)
        await ended(*children)
        async with asyncio.timeout(60):
            while count_supervisors():
                await asyncio.sleep(0)
        async with here.client(name="agent0") as client:
            assert await pid(client) not in children


def count_supervisors() -> int:
    gc.collect()
    return sum(isinstance(each, ChildSupervisor) for each in gc.get_objects())
