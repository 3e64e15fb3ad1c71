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


@pytest.mark.spec("GATE-75")
async def test_a_request_that_is_cancelled_while_an_idle_child_ends_makes_no_second_child() -> None:
    clock = ManualClock()
    async with at("--stays", clock=clock, per_agent=True, idle_seconds=100) as here, here.client() as client:
        first = await pid(client)
        await clock.sleepers(1)
        (supervisor,) = find_supervisors()
        clock.advance(101)  # this child ends seconds later only
        asking = asyncio.create_task(pid(client))
        async with asyncio.timeout(60):
            while not is_busy(supervisor):
                await asyncio.sleep(0)
        for call in here.calls:
            call.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await ended(first)
        await clock.sleepers(1)
        second = await pid(client)
        for _ in range(2):
            clock.advance(60)
            assert await pid(client) == second
        assert find_supervisors() == [supervisor]


def is_busy(supervisor: ChildSupervisor) -> bool:
    return supervisor._busy > 0  # pyright: ignore[reportPrivateUsage]


def count_supervisors() -> int:
    return len(find_supervisors())


def find_supervisors() -> list[ChildSupervisor]:
    gc.collect()
    return [each for each in gc.get_objects() if isinstance(each, ChildSupervisor)]
