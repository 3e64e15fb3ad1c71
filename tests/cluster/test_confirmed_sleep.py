"""An agent that one gateway has put to sleep sleeps at the others that have confirmed it, once that is answered."""

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from circadia.ids import MemberId, hash_token
from circadia.records.member import Member, Role
from circadia.server.membership import build_token_check
from circadia.testing.clock import ManualClock
from tests.cli.terminal import run
from tests.fixtures.database_line import DatabaseLine, database_line
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.redis import RedisServer, connect_redis
from tests.interaction.live import ADMIN, Live, live
from tests.interaction.test_cluster import CUT_SIGNALS, cluster, list_members, wait_until_listening
from tests.interaction.test_mcp_door import ask, call
from tests.interaction.test_two_servers import seen

pytestmark = pytest.mark.spec("GATE-95")
CALLERS: Final = 16
"""Callers of one agent at each gateway."""
PAUSE_SECONDS: Final = 0.2
"""Longest pause of a caller between two calls."""
SEED: Final = 95
WAIT_SECONDS: Final = 0.1
"""How long a sleep waits for confirmations."""
LEASE_SECONDS: Final = 15
KNOWN_SECONDS: Final = 60.0
"""Far more than it takes, for a machine that is busy."""


async def call_again_and_again(at: Live, token: str, pauses: random.Random) -> None:
    while True:
        await asyncio.sleep(pauses.uniform(0, PAUSE_SECONDS))
        async with at.call(token) as response:
            await response.read()
            assert response.status == 200


async def put_to_sleep(at: Live, name: str = "ann") -> list[str]:
    """Put an agent to sleep; return the ids of the gateways that have not confirmed it."""
    status, answer = await at.rest("PUT", f"/sessions/default/agents/{name}/sleeping", {"sleeping": True})
    assert (status, answer["sleeping"]) == (200, True), answer
    return answer["unconfirmed"]


async def wait_for_holds(gateways: Sequence[Live], each: int) -> None:
    async with asyncio.timeout(KNOWN_SECONDS):
        while any(at.server.waiting() < each for at in gateways):
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("sleeps", [50, pytest.param(1_000, marks=[pytest.mark.slow, pytest.mark.timeout(3_600)])])
async def test_a_gateway_that_has_confirmed_a_sleep_sends_nothing_after_its_answer(
    tmp_path: Path, postgres_url: str, sleeps: int
) -> None:
    pauses, confirmed, late = random.Random(SEED), 0, 0
    async with cluster(tmp_path, postgres_url, *[Role.GATEWAY] * 3) as gateways, AsyncExitStack() as stack:
        await wait_until_listening(postgres_url, 3)
        ids = {member["address"]: member["id"] for member in await list_members(gateways[0])}
        ann = await gateways[0].agent()
        callers = [
            asyncio.create_task(call_again_and_again(at, ann, pauses)) for at in gateways for _ in range(CALLERS)
        ]
        stack.callback(lambda: [caller.cancel() for caller in callers])
        for number in range(sleeps):
            asked = gateways[number % 3]
            unconfirmed = await put_to_sleep(asked)
            sent = {at.url: len(at.upstream.requests) for at in gateways}
            await wait_for_holds(gateways, CALLERS // 4)
            for at in gateways:
                if ids[at.url] not in unconfirmed:
                    late += len(at.upstream.requests) - sent[at.url]
                    confirmed += at is not asked
            await asked.sleeping(False)
        assert not [caller for caller in callers if caller.done()]
    assert late == 0
    assert confirmed >= sleeps, "most of two others each time, also where the machine is busy"


async def pass_wait(clock: ManualClock, answer: "asyncio.Task[Any]") -> Any:
    """Return the answer, which waits for confirmations that do not come."""
    async with asyncio.timeout(KNOWN_SECONDS):
        while not answer.done():
            clock.advance(WAIT_SECONDS / 10)
            await asyncio.sleep(0.005)
    return answer.result()


async def test_a_gateway_whose_listen_is_broken_is_named_and_reads_the_row_before_each_call(
    tmp_path: Path, postgres_url: str, postgres_server: PostgresServer
) -> None:
    """The clock of `there` stands, so that no sweep comes and its connection stays lost."""
    clocks = [ManualClock(), ManualClock()]
    async with cluster(tmp_path, postgres_url, Role.GATEWAY, Role.GATEWAY, clocks=clocks) as (here, there):
        await wait_until_listening(postgres_url, 2)
        (_, other) = [member["id"] for member in await list_members(here)]
        ann = await here.agent()
        assert (await there.answered(ann))[0] == 200
        await postgres_server.execute(CUT_SIGNALS)
        assert (await there.answered(ann))[0] == 200
        assert await pass_wait(clocks[0], asyncio.create_task(put_to_sleep(here))) == [other]
        async with asyncio.timeout(KNOWN_SECONDS), asyncio.TaskGroup() as calls:
            held = calls.create_task(there.answered(ann))
            await there.held(1)
            assert len(there.upstream.requests) == 2
            await here.sleeping(False)
            clocks[1].advance(1)
        assert held.result()[0] == 200


async def test_a_gateway_that_has_not_heard_stops_with_its_next_sweep_within_a_second(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks = [ManualClock(), ManualClock()]
    async with cluster(tmp_path, postgres_url, Role.GATEWAY, Role.GATEWAY, clocks=clocks) as (here, there):
        await wait_until_listening(postgres_url, 2)
        (_, other) = [member["id"] for member in await list_members(here)]
        ann = await here.agent()
        assert (await there.answered(ann))[0] == 200
        monkeypatch.setattr("circadia.stores.signals.postgres.NotifyCarrier.send", lose)
        assert await pass_wait(clocks[0], asyncio.create_task(put_to_sleep(here))) == [other]
        clocks[1].advance(1)
        sent = -1
        async with asyncio.timeout(KNOWN_SECONDS), asyncio.TaskGroup() as calls:
            while not there.server.waiting():  # it may read while a call comes
                sent = len(there.upstream.requests)
                calls.create_task(there.answered(ann))
                await asyncio.sleep(0.01)
            assert len(there.upstream.requests) == sent
            monkeypatch.undo()
            await here.sleeping(False)
            clocks[1].advance(1)


async def lose(_: object, __: object) -> None:
    """Send signals that are lost although all connections stand."""


@dataclass(frozen=True, kw_only=True)
class CutOff:
    """Two gateways, of which the second one can be cut off from its rows, and both from each other's signals."""

    here: Live
    there: Live
    clock: ManualClock
    line: DatabaseLine
    cut_signals: Callable[[], Awaitable[object]]


@pytest.fixture(params=["notify", "redis"])
def redis(request: pytest.FixtureRequest) -> RedisServer | None:
    """A Redis for signals, or none."""
    return request.getfixturevalue("redis_server") if request.param == "redis" else None


@pytest.fixture
async def gateways(
    redis: RedisServer | None, tmp_path: Path, postgres_url: str, postgres_server: PostgresServer
) -> AsyncGenerator[CutOff]:
    clock, direct = ManualClock(), {"direct_database_url": postgres_url}
    sections: dict[str, Any] = {"role": Role.GATEWAY, "clock": clock}
    if redis is not None:
        sections["signals"] = redis.url

    async def cut_signals() -> None:
        if redis is None:
            await postgres_server.execute(CUT_SIGNALS)
        else:
            async with connect_redis(redis) as client:
                await client.client_kill_filter(_type="pubsub")

    async with (
        database_line(postgres_server) as line,
        live(tmp_path / "here", server={"database_url": postgres_url, **direct}, **sections) as here,
        live(tmp_path / "there", server={"database_url": line.build_url(postgres_url), **direct}, **sections) as there,
    ):
        if redis is None:
            await wait_until_listening(postgres_url, 2)
        else:
            async with connect_redis(redis) as client, asyncio.timeout(KNOWN_SECONDS):
                while (await client.pubsub_numsub("circadia"))[0][1] < 2:
                    await asyncio.sleep(0.01)
        try:
            yield CutOff(here=here, there=there, clock=clock, line=line, cut_signals=cut_signals)
        finally:
            line.restore()


async def test_a_gateway_that_hears_of_a_sleep_and_cannot_read_the_row_sends_nothing(gateways: CutOff) -> None:
    here, there = gateways.here, gateways.there
    ann, bob = await here.agent(), await here.agent("bob")
    for token in (ann, bob):
        assert (await there.answered(token))[0] == 200
    gateways.line.cut()
    assert await put_to_sleep(here) == [], "it has closed the gate"
    assert (await there.answered(bob))[0] == 200, "nobody has put bob to sleep"
    assert (await there.answered(ann))[0] == 503, "what is held needs a place, which is a row"
    assert len(there.upstream.requests) == 3
    gateways.line.restore()
    await here.sleeping(False)
    async with asyncio.timeout(KNOWN_SECONDS):
        while (await there.answered(ann))[0] != 200:
            gateways.clock.advance(1)


async def test_a_gateway_that_may_have_missed_a_sleep_sends_nothing_until_it_has_read_the_row(
    gateways: CutOff, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there, clock = gateways.here, gateways.there, gateways.clock
    ann = await here.agent()
    assert (await there.answered(ann))[0] == 200
    gateways.line.cut()
    for carrier in ("postgres.NotifyCarrier", "redis.RedisCarrier"):
        monkeypatch.setattr(f"circadia.stores.signals.{carrier}.send", lose)
    await gateways.cut_signals()
    (_,) = await pass_wait(clock, asyncio.create_task(put_to_sleep(here)))
    statuses, sent = list[int](), list[int]()
    for _ in range(40):  # until it has noticed that it hears again, which comes before the end of the grace
        sent.append(len(there.upstream.requests))
        statuses.append((await there.answered(ann))[0])
        clock.advance(0.25)
    assert statuses[-1] == 503
    assert sent[-1] == sent[statuses.index(503)] == len(there.upstream.requests)


@asynccontextmanager
async def with_dead_gateway(folder: Path, url: str) -> AsyncGenerator[tuple[Live, ManualClock]]:
    """A gateway that is alone but for the rows of a gateway and of a worker that died just now."""
    clock = ManualClock()
    gateway = Member(
        id=MemberId("mem_dead"), role=Role.GATEWAY, version="0", host="away", address="http://away:4114",
        token_check=build_token_check([hash_token(ADMIN)]), started_at=clock.now(),
        lease_until=clock.now() + timedelta(seconds=LEASE_SECONDS),
    )  # fmt: skip
    async with seen(url) as store, store.begin_write() as tx:
        await tx.members.put(gateway)
        await tx.members.put(replace(gateway, id=MemberId("mem_worker"), role=Role.WORKER, address="http://away:4115"))
    async with live(folder, role=Role.GATEWAY, clock=clock, server={"database_url": url}) as at:
        yield at, clock


async def use_tool(at: Live, token: str, name: str, **arguments: Any) -> list[str]:
    (answer,) = await ask(at, token, call(name, **arguments))
    result = answer["result"]["structuredContent"]
    assert result["sleeping"] is True
    return result["unconfirmed"]


async def put_many(at: Live) -> list[str]:
    status, answer = await at.rest("PUT", "/sessions/default/sleeping", {"sleeping": True})
    assert status == 200
    assert {state["agent"]: state["unconfirmed"] for state in answer["agents"]} == {
        "ann": ["mem_dead"],
        "bob": ["mem_dead"],
    }
    return answer["agents"][0]["unconfirmed"]


WAYS: Final[dict[str, Callable[[Live, str], Awaitable[list[str]]]]] = {
    "PUT": lambda at, _: put_to_sleep(at),
    "PUT of many": lambda at, _: put_many(at),
    "set_sleeping": lambda at, ann: use_tool(at, ann, "set_sleeping", agent="bob", sleeping=True),
    "sleep_self": lambda at, ann: use_tool(at, ann, "sleep_self"),
}


@pytest.mark.parametrize("way", WAYS)
async def test_a_sleep_is_answered_after_a_tenth_of_a_second_and_names_who_has_not_confirmed_it(
    tmp_path: Path, postgres_url: str, way: str
) -> None:
    async with with_dead_gateway(tmp_path, postgres_url) as (at, clock):
        ann = await at.agent(may_sleep=["*"])
        await at.agent("bob")
        for _ in range(2):  # the second time it changes nothing, and is asked all the same
            resting = clock.sleepers
            answer = asyncio.create_task(asyncio.wait_for(WAYS[way](at, ann), KNOWN_SECONDS))
            await clock.wait_for_sleepers(resting + 1)
            clock.advance(WAIT_SECONDS * 0.99)
            await list_members(at)
            assert not answer.done()
            assert await pass_wait(clock, answer) == ["mem_dead"]
            if way == "sleep_self":
                break
        clock.advance(LEASE_SECONDS)
        await list_members(at)
        assert await put_to_sleep(at, "bob") == [], "it counts as dead"


async def test_a_wake_and_a_sleep_by_an_event_wait_for_nobody(tmp_path: Path, postgres_url: str) -> None:
    async with with_dead_gateway(tmp_path, postgres_url) as (at, _), asyncio.timeout(KNOWN_SECONDS):
        new = {"name": "ann", "sleep_events": ["agent_started", "last_thread_closed"]}
        assert (await at.rest("POST", "/sessions/default/agents", new))[0] == 201
        await at.sleeping(False)
        status, thread = await at.rest("POST", "/sessions/default/threads", {"name": "t", "participants": ["ann"]})
        assert status == 201
        assert (await at.rest("POST", f"/sessions/default/threads/{thread['id']}/close"))[0] == 200
        assert (await at.rest("GET", "/sessions/default/agents/ann/sleeping"))[1]["sleeping"] is True


async def test_the_command_names_the_gateways_that_have_not_confirmed(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CIRCADIA_ADMIN_TOKEN", ADMIN)
    async with with_dead_gateway(tmp_path, postgres_url) as (at, clock):
        await at.agent()
        result = await pass_wait(clock, asyncio.create_task(run("sleep", "ann", "--url", at.url)))
        assert (result.status, result.out.splitlines()[1].split()[:3]) == (0, ["default", "ann", "asleep"])
        assert result.err == "warning: these gateways have not confirmed, and may send calls for a second: mem_dead\n"
        assert (await run("wake", "ann", "--url", at.url)).err == ""
