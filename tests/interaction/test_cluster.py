"""Several whole servers on one PostgreSQL, as gateways and workers: members, the lead, doors, pulses and signals."""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import NullPool
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from circadia.clock import Clock, SystemClock
from circadia.ids import MemberId, hash_token
from circadia.records.member import Member, Role
from circadia.server.membership import build_token_check
from circadia.testing.clock import ManualClock
from tests.fixtures.leap_clock import LeapClock
from tests.fixtures.postgres import PostgresServer
from tests.gateway.bound_agent import chat
from tests.interaction.live import ADMIN, Live, live
from tests.interaction.test_two_servers import seen

KNOWN_SECONDS = 60.0
"""Far more than it takes, for a machine that is busy."""
CUT_SIGNALS = (
    "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'circadia signals'"
)
LISTENING = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    " AND application_name = 'circadia signals' AND (query LIKE 'LISTEN%' OR query LIKE '%pg_notify%')"
)
CONNECTIONS = (
    "SELECT application_name AS name, count(*) AS number FROM pg_stat_activity"
    " WHERE datname = current_database() AND application_name LIKE 'circadia%' GROUP BY 1"
)
QUICK: dict[str, Any] = {"quick": {"kind": "callable", "function": "benchmarks.pulse_agent:quick"}}
ASKED = {"to": "bob", "message": "Please look.", "reason": "blocker"}


@asynccontextmanager
async def cluster(
    folder: Path, url: str, *roles: Role, clocks: Sequence[Clock | None] = (), **sections: Any
) -> AsyncGenerator[list[Live]]:
    """Run a server of each role, started in this order; the last clock is that of all further ones."""
    async with AsyncExitStack() as stack:
        servers: list[Live] = []
        for number, role in enumerate(roles):
            clock = clocks[min(number, len(clocks) - 1)] if clocks else None
            running = live(folder / str(number), role=role, clock=clock, server={"database_url": url}, **sections)
            servers.append(await stack.enter_async_context(running))
        yield servers


@asynccontextmanager
async def connected(url: str) -> AsyncGenerator[AsyncConnection]:
    """Connect to the database, beside the servers."""
    engine = create_async_engine(
        "postgresql+asyncpg://", connect_args={"dsn": url}, isolation_level="AUTOCOMMIT", poolclass=NullPool
    )
    async with engine.connect() as connection:
        yield connection


async def wait_until_listening(url: str, servers: int) -> None:
    async with connected(url) as connection, asyncio.timeout(KNOWN_SECONDS):
        while (await connection.exec_driver_sql(LISTENING)).scalar_one() < servers:
            await asyncio.sleep(0.01)


async def list_members(at: Live) -> list[dict[str, Any]]:
    status, answer = await at.rest("GET", "/cluster")
    assert status == 200, answer
    return answer["members"]


async def find_leaders(at: Live) -> list[str]:
    return [member["address"] for member in await list_members(at) if member["leads"]]


async def wait_for_leader(at: Live, address: str) -> None:
    async with asyncio.timeout(KNOWN_SECONDS):
        while await find_leaders(at) != [address]:
            await asyncio.sleep(0.01)


async def pass_seconds(clock: ManualClock, at: Live, seconds: int) -> None:
    """Let the seconds pass one by one, with a look at a server after each."""
    for _ in range(seconds):
        clock.advance(1)
        await list_members(at)


async def wait_for_end(at: Live, count: int = 1) -> list[dict[str, Any]]:
    """Return bob's pulses once so many have ended."""
    async with asyncio.timeout(60):
        while True:
            found = (await at.rest("GET", "/agents/bob/pulses"))[1]["pulses"]
            if len([pulse for pulse in found if pulse["ended_at"]]) >= count:
                return found
            await asyncio.sleep(0.01)


def launched_bob(launcher: str, **guardrails: Any) -> dict[str, Any]:
    guardrails = {"cooldown_seconds": 0, **guardrails}
    return {"bob": {"coordination": {"launcher": launcher, "heartbeat_minutes": None, "wake_guardrails": guardrails}}}


@pytest.mark.spec("CLU-10", "CLU-11")
async def test_each_member_is_listed_with_role_and_address_and_one_that_is_no_gateway_leads(
    tmp_path: Path, postgres_url: str
) -> None:
    async with cluster(tmp_path, postgres_url, Role.GATEWAY, Role.WORKER, Role.ALL) as (gateway, worker, both):
        for at in (gateway, both):
            assert [(member["role"], member["address"], member["leads"]) for member in await list_members(at)] == [
                ("gateway", gateway.url, False), ("worker", worker.url, True), ("all", both.url, False)
            ]  # fmt: skip
        ann = await gateway.agent()
        assert (await gateway.rest("GET", "/cluster", token=ann))[0] == 403


@pytest.mark.spec("CLU-11")
async def test_a_leader_that_stops_gives_up_the_lead_and_another_takes_it_at_its_next_beat(
    tmp_path: Path, postgres_url: str
) -> None:
    clock = ManualClock()
    async with AsyncExitStack() as stack:
        (first,) = await stack.enter_async_context(cluster(tmp_path / "first", postgres_url, Role.ALL, clocks=[clock]))
        async with cluster(tmp_path, postgres_url, Role.GATEWAY, Role.WORKER, clocks=[clock]) as (gateway, worker):
            assert await find_leaders(gateway) == [first.url]
            await stack.aclose()
            assert [member["address"] for member in await list_members(gateway)] == [gateway.url, worker.url]
            assert await find_leaders(gateway) == []
            await pass_seconds(clock, gateway, 5)
            await wait_for_leader(gateway, worker.url)


@pytest.mark.spec("CLU-11")
async def test_a_member_that_died_is_gone_after_its_lease_and_the_lead_goes_to_another(
    tmp_path: Path, postgres_url: str
) -> None:
    clock = ManualClock()
    now, until = clock.now(), clock.now() + timedelta(seconds=15)
    dead = Member(
        id=MemberId("mem_dead"), role=Role.WORKER, version="0", host="away", address="http://away:4114",
        token_check=build_token_check([hash_token(ADMIN)]), started_at=now, lease_until=until,
    )  # fmt: skip
    async with seen(postgres_url) as store, store.begin_write() as tx:
        await tx.members.put(dead)
        assert await tx.members.lead(dead.id, now=now, until=until)
    async with cluster(tmp_path, postgres_url, Role.GATEWAY, Role.WORKER, clocks=[clock]) as (gateway, worker):
        await pass_seconds(clock, gateway, 14)
        assert await find_leaders(gateway) == [dead.address]
        await pass_seconds(clock, gateway, 1)
        assert [member["address"] for member in await list_members(gateway)] == [gateway.url, worker.url]
        await pass_seconds(clock, gateway, 6)  # a beat may have come just before
        await wait_for_leader(gateway, worker.url)


@pytest.mark.spec("CLU-10")
async def test_a_worker_has_no_doors_for_calls_and_says_where_they_are(tmp_path: Path, postgres_url: str) -> None:
    async with cluster(tmp_path, postgres_url, Role.WORKER) as (worker,):
        operator = {"authorization": f"Bearer {ADMIN}"}

        async def get(path: str, headers: dict[str, str] | None = None) -> tuple[int, str]:
            async with worker.http.get(f"{worker.url}{path}", headers=headers) as answer:
                return answer.status, await answer.text()

        for path in ("/llm/openai/v1/models", "/mcp", "/api/v1/cluster", "/api/openapi.json"):
            status, text = await get(path, operator)
            assert (status, "call a gateway" in text) == (404, True), path
        assert [(await get(path))[0] for path in ("/healthz", "/readyz", "/metrics")] == [200, 200, 401]
        assert (await get("/metrics", operator))[0] == 200


@pytest.mark.spec("CLU-10")
async def test_a_gateway_admits_wakes_and_a_worker_runs_their_pulses(tmp_path: Path, postgres_url: str) -> None:
    clock = LeapClock()
    sections: dict[str, Any] = {"launchers": QUICK, "agents": launched_bob("quick"), "sleeptime": {"when": "manual"}}
    async with AsyncExitStack() as stack:
        (gateway,) = await stack.enter_async_context(
            cluster(tmp_path / "gateways", postgres_url, Role.GATEWAY, clocks=[clock], **sections)
        )
        ann = await gateway.agent()
        assert (await gateway.rest("POST", "/wakes", ASKED, token=ann))[1]["decision"] == "admitted"
        for _ in range(5):
            clock.leap(10)
            (pulse,) = (await gateway.rest("GET", "/agents/bob/pulses"))[1]["pulses"]
            assert pulse["status"] == "pending"
        await stack.enter_async_context(
            cluster(tmp_path / "workers", postgres_url, Role.WORKER, clocks=[clock], **sections)
        )
        (pulse,) = await wait_for_end(gateway)
        assert pulse["status"] == "succeeded"
        assert (await gateway.rest("POST", "/wakes", ASKED, token=ann))[1]["decision"] == "admitted"
        assert [pulse["status"] for pulse in await wait_for_end(gateway, 2)] == ["succeeded", "succeeded"]


@pytest.mark.spec("CLU-12")
async def test_a_held_call_goes_on_by_a_signal_alone_when_its_agent_is_woken_at_another_gateway(
    tmp_path: Path, postgres_url: str
) -> None:
    """No clock moves, so that no sweep comes."""
    clocks = [ManualClock(), ManualClock()]
    async with cluster(tmp_path, postgres_url, Role.GATEWAY, Role.GATEWAY, clocks=clocks) as (here, there):
        await wait_until_listening(postgres_url, 2)
        for name in ("ann", "bob", "cat"):  # each is new to `there`, which reads its row when it calls
            token = await here.agent(name)
            await here.sleeping(True, name)
            async with asyncio.timeout(KNOWN_SECONDS), asyncio.TaskGroup() as calls:
                answer = calls.create_task(there.answered(token))
                await there.held(1)
                await here.sleeping(False, name)
            assert answer.result()[0] == 200


@pytest.mark.spec("CLU-12")
async def test_a_held_call_goes_on_by_a_sweep_within_a_second_when_signals_are_lost(
    tmp_path: Path, postgres_url: str, postgres_server: PostgresServer
) -> None:
    """The clock of the sender never moves, so that its lost connection for signals stays lost."""
    clocks = [ManualClock(), ManualClock()]
    async with cluster(tmp_path, postgres_url, Role.GATEWAY, Role.GATEWAY, clocks=clocks) as (here, there):
        await wait_until_listening(postgres_url, 2)
        ann = await here.agent()
        await here.sleeping(True)
        async with asyncio.timeout(KNOWN_SECONDS), asyncio.TaskGroup() as calls:
            answer = calls.create_task(there.answered(ann))
            await there.held(1)
            await postgres_server.execute(CUT_SIGNALS)
            await here.sleeping(False)
            await there.held(1)
            clocks[1].advance(1)
        assert answer.result()[0] == 200


@pytest.mark.spec("CLU-16")
async def test_a_process_with_another_operators_token_does_not_start_and_says_what_to_do(
    tmp_path: Path, postgres_url: str
) -> None:
    server = {"database_url": postgres_url, "port": 0}
    (tmp_path / "circadia.yaml").write_text(yaml.safe_dump({"server": server}), "utf-8")
    async with cluster(tmp_path / "first", postgres_url, Role.ALL) as (first,):
        starting = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "circadia", "serve", "--config", tmp_path / "circadia.yaml", "--data", tmp_path),
            env={**os.environ, "CIRCADIA_ADMIN_TOKEN": "another-token-of-an-operator"},
            stderr=asyncio.subprocess.PIPE,
        )
        _, errors = await starting.communicate()
        assert starting.returncode == 10
        assert first.url in errors.decode()
        assert "start all servers with the same CIRCADIA_ADMIN_TOKEN" in errors.decode()
        assert [member["address"] for member in await list_members(first)] == [first.url]


class WrongClock(SystemClock):
    """The clock of a machine that is wrong by some minutes."""

    def __init__(self, minutes: float) -> None:
        super().__init__()
        self._error = timedelta(minutes=minutes)

    def now(self) -> datetime:
        return super().now() + self._error


@pytest.mark.spec("CLU-25")
async def test_machines_whose_clocks_differ_by_minutes_agree_on_times_and_cooldowns(
    tmp_path: Path, postgres_url: str
) -> None:
    clocks = [WrongClock(-7), WrongClock(7)]
    async with cluster(
        tmp_path, postgres_url, Role.ALL, Role.ALL, clocks=clocks, launchers=QUICK,
        agents=launched_bob("quick", cooldown_seconds=600),
    ) as (behind, ahead):  # fmt: skip
        ann = await behind.agent()
        await ahead.agent("cat")
        times = [
            datetime.fromisoformat((await behind.rest("GET", f"/sessions/default/agents/{name}"))[1]["created_at"])
            for name in ("ann", "cat")
        ]
        assert abs(times[1] - times[0]) < timedelta(minutes=1)
        assert (await behind.rest("POST", "/wakes", ASKED, token=ann))[1]["decision"] == "admitted"
        await wait_for_end(behind)
        second = (await ahead.rest("POST", "/wakes", ASKED, token=ann))[1]
        assert (second["decision"], second["rule"]) == ("deferred", "cooldown_seconds")
        assert len(await list_members(ahead)) == 2


@pytest.mark.setting("server.readers", "server.writers")
@pytest.mark.parametrize(("readers", "writers"), [(1, 3), (3, 1)])
async def test_a_process_has_as_many_connections_as_readers_and_writers_two_for_people_and_one_for_signals(
    tmp_path: Path, postgres_url: str, readers: int, writers: int
) -> None:
    server = {"database_url": postgres_url, "readers": readers, "writers": writers}
    most: Counter[str] = Counter()
    async with live(tmp_path / "data", server=server) as at, connected(postgres_url) as connection:
        await wait_until_listening(postgres_url, 1)
        agent = await at.agent()

        async def load(number: int) -> None:
            for _ in range(5):
                await at.rest("POST", "/banks", {"name": f"bank-{number}"})
                await at.rest("GET", "/banks")
                await at.rest("GET", "/sessions/default/threads", token=agent)

        loads = asyncio.gather(*map(load, range(40)))
        while not loads.done():
            for row in (await connection.exec_driver_sql(CONNECTIONS)).all():
                most[row.name] = max(most[row.name], row.number)
        await loads
    assert most == {"circadia": readers + writers + 2, "circadia signals": 1}


@pytest.mark.setting("server.gateway_url")
async def test_an_agent_that_a_worker_starts_gets_the_url_of_the_gateway(tmp_path: Path, postgres_url: str) -> None:
    program: dict[str, Any] = {"url": {"kind": "subprocess", "command": ["sh", "-c", "echo at $CIRCADIA_URL"]}}
    sections: dict[str, Any] = {"launchers": program, "agents": launched_bob("url")}
    async with cluster(tmp_path / "gateways", postgres_url, Role.GATEWAY, **sections) as (gateway,):
        server = {"database_url": postgres_url, "gateway_url": gateway.url}
        async with live(tmp_path / "worker", role=Role.WORKER, server=server, **sections):
            ann = await gateway.agent()
            await gateway.rest("POST", "/wakes", ASKED, token=ann)
            (pulse,) = await wait_for_end(gateway)
    assert f"at {gateway.url}" in pulse["detail"]


@pytest.mark.spec("CLU-10")
async def test_a_call_that_fills_its_context_at_a_gateway_makes_a_pass_begin_at_a_worker(
    tmp_path: Path, postgres_url: str
) -> None:
    sections: dict[str, Any] = {
        "banks": {"team": {"sleeptime": {"overflow_share": 0.01}}},
        "sleeptime": {"when": "manual", "model": "none"},
    }
    async with cluster(tmp_path, postgres_url, Role.GATEWAY, Role.WORKER, **sections) as (gateway, _):
        token = await gateway.agent(bank="team")
        await gateway.called(token, chat("My sister moved to Porto in May. " + "What is the plan? " * 400))
        async with asyncio.timeout(KNOWN_SECONDS):
            while not (passes := (await gateway.rest("GET", "/banks/team/passes"))[1]["passes"]):
                await asyncio.sleep(0.02)
    assert [run["trigger"] for run in passes] == ["overflow"]
