"""Limits of held calls hold over several gateways: of racing calls exactly as many are held as are allowed."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from circadia.clock import SystemClock
from circadia.errors import LimitReached, StorageUnavailable
from circadia.gateway.hold import places as hold_places
from circadia.gateway.hold.places import SharedHoldPlaces
from circadia.ids import MemberId
from circadia.settings import LimitsSettings
from circadia.stores.base import Store
from tests.cluster.scene import two_servers
from tests.contract.rows import agent
from tests.interaction.live import Live
from tests.watched_store import HookedStore

pytestmark = pytest.mark.spec("CLU-04")


class Callers:
    """Calls of sleeping agents at both servers, which are held, refused or answered."""

    def __init__(self, servers: Sequence[Live]) -> None:
        self._servers = servers
        self._statuses: list[asyncio.Task[int]] = []

    async def race(self, token: str, count: int) -> int:
        """Make so many calls at the same time, at both servers by turns; return how many are refused."""
        async with asyncio.timeout(60):
            while await self._count_held(()):  # an answered call may still be listed for a moment
                await asyncio.sleep(0.01)
        calls = [asyncio.create_task(self._call(self._servers[number % 2], token)) for number in range(count)]
        self._statuses += calls
        async with asyncio.timeout(60):
            while (refused := sum(call.done() for call in calls)) + await self._count_held(calls) != count:
                await asyncio.sleep(0.01)
        assert all(call.result() == 429 for call in calls if call.done())
        return refused

    async def end(self) -> Sequence[int]:
        """Return the statuses of all calls, once they are answered."""
        return await asyncio.gather(*self._statuses)

    async def _count_held(self, calls: Sequence[asyncio.Task[int]]) -> int:
        held = [await server.rest("GET", "/holds") for server in self._servers]
        before = sum(not task.done() for task in self._statuses if task not in calls)
        return sum(answer["total"] for _, answer in held) - before

    async def _call(self, server: Live, token: str) -> int:
        async with server.call(token) as response:
            await response.read()
            return response.status


async def add_sleeper(server: Live, name: str) -> str:
    token = await server.agent(name)
    await server.sleeping(True, name)
    return token


async def test_each_gateway_counts_the_calls_that_the_other_one_holds(tmp_path: Path, postgres_url: str) -> None:
    silent = {"hold_silent_seconds": 300}  # no keep-alive has sent a status before the drop, however slow the machine
    async with two_servers(tmp_path, postgres_url, defaults=silent) as servers:
        here, there = servers
        ann, bob = [await add_sleeper(here, name) for name in ("ann", "bob")]
        calls = [asyncio.create_task(here.answered(token)) for token in (ann, ann, bob)]
        (_, cluster) = await there.rest("GET", "/cluster")
        members = {member["address"]: member["id"] for member in cluster["members"]}
        holds = {each["reference"]: each["id"] for each in await here.held(3)}
        rows = [
            {"agent": name, "session": "default", "reference": name, "server": members[here.url], "address": here.url,
             "holds": count}
            for name, count in (("ann", 2), ("bob", 1))
        ]  # fmt: skip

        async def wait_for(elsewhere: Sequence[Any], query: str = "") -> None:
            async with asyncio.timeout(60):
                while (seen := (await there.rest("GET", f"/holds{query}"))[1])["elsewhere"] != elsewhere:
                    await asyncio.sleep(0.05)
            assert (seen["holds"], seen["total"]) == ([], 0)

        await wait_for(rows)
        await wait_for(rows[:1], "?limit=1")
        await wait_for(rows[1:], "?agent=bob")
        assert (await there.rest("GET", "/holds?limit=1"))[1]["total_elsewhere"] == 3
        assert (await here.rest("GET", "/holds"))[1]["elsewhere"] == []
        status, problem = await there.rest("POST", f"/holds/{holds['bob']}/drop")
        assert status == 404
        assert "ask the server that holds it" in problem["detail"]
        assert (await here.rest("POST", f"/holds/{holds['bob']}/drop"))[0] == 200
        await wait_for(rows[:1])
        await there.sleeping(False, "ann")
        await wait_for([])
        assert [status for status, _ in await asyncio.gather(*calls)] == [200, 200, 410]


async def test_racing_calls_at_two_gateways_are_held_up_to_the_limits_of_the_agent_and_of_all(
    tmp_path: Path, postgres_url: str, late_locks: dict[str, str]
) -> None:
    limits: dict[str, Any] = {"max_holds": 6, "max_holds_per_agent": 4}
    async with two_servers(tmp_path, postgres_url, limits=limits) as servers:
        ann, bob = [await add_sleeper(servers[0], name) for name in ("ann", "bob")]
        callers = Callers(servers)
        assert await callers.race(ann, 10) == 10 - 4
        assert await callers.race(bob, 10) == 10 - 2, "four of six are taken"
        await servers[1].sleeping(False, "ann")
        async with asyncio.timeout(60):
            while await callers.race(bob, 1):  # ann's places come back within a second
                await asyncio.sleep(0.05)
        assert await callers.race(bob, 4) == 4 - 1, "three of four are taken"
        await servers[0].sleeping(False, "bob")
        statuses = await callers.end()
    assert statuses.count(200) == 4 + 4
    assert set(statuses) == {200, 429}
    assert not late_locks


class CancellingStore(HookedStore):
    """A store at whose next commit a task is cancelled: before it, or when its caller is just about to hear of it."""

    task: asyncio.Task[None] | None = None
    is_late = False

    def before_commit(self) -> None:
        if self.task is not None and not self.is_late:
            self.task.cancel()
            self.task = None

    def after_commit(self) -> None:
        if self.task is not None:
            asyncio.get_running_loop().call_soon(self.task.cancel)
            self.task = None


@pytest.mark.parametrize("is_late", [False, True], ids=["while it is written", "while it is granted"])
async def test_the_place_of_a_caller_who_leaves_while_it_is_taken_is_free_again(
    sqlite_store: Store, is_late: bool
) -> None:
    store, ann = CancellingStore(sqlite_store), agent("ann")
    store.is_late = is_late
    limits = LimitsSettings.model_validate({"max_holds_per_agent": 1})
    places = SharedHoldPlaces(SystemClock(), store, MemberId("mbr_1"), limits, 1_000)
    running = asyncio.create_task(places.run())
    try:
        async with asyncio.timeout(30):
            store.task = gone = asyncio.create_task(places.take(ann))
            await asyncio.gather(gone, return_exceptions=True)
            assert gone.cancelled()
            await places.take(ann)
            with pytest.raises(LimitReached):
                await places.take(ann)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_the_place_of_a_caller_whose_time_is_over_as_it_is_granted_is_free_again(
    sqlite_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits_of_time: list[asyncio.Timeout] = []

    @asynccontextmanager
    async def limit_wait() -> AsyncGenerator[None]:
        try:
            async with asyncio.timeout(60) as limit:
                limits_of_time.append(limit)
                yield
        except TimeoutError as error:
            raise StorageUnavailable("it took too long") from error

    class LateStore(HookedStore):
        def after_commit(self) -> None:
            if len(limits_of_time) == 1:
                limits_of_time[0].reschedule(0.0)

    monkeypatch.setattr(hold_places, "limit_wait", limit_wait)
    limits = LimitsSettings.model_validate({"max_holds_per_agent": 1})
    places = SharedHoldPlaces(SystemClock(), LateStore(sqlite_store), MemberId("mbr_1"), limits, 1_000)
    running = asyncio.create_task(places.run())
    try:
        async with asyncio.timeout(30):
            with pytest.raises(StorageUnavailable):
                await places.take(agent("ann"))
            await places.take(agent("ann"))
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
