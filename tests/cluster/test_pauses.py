"""Processes of a cluster that stand still (SIGSTOP) for longer than their leases, and go on (SIGCONT)."""

import asyncio
import os
import random
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

from circadia.ids import AgentId
from circadia.stores.locks import agent_key
from tests.cluster.four_processes import Cluster, four_processes
from tests.cluster.load import under_load
from tests.cluster.test_kills import draw_seed
from tests.durability.waking import config, noted, until_noted
from tests.fixtures.server_process import CircadiaProcess
from tests.interaction.test_cluster import connected

HELD_UP_SECONDS: Final = 2.0
OWN_SECONDS: Final = 3.0
"""For the write itself, on a machine that is busy; without a limit for idle transactions it would fail after 10 s."""
KEY_IS_HELD: Final = (
    "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE locktype = 'advisory' AND granted"
    " AND state = 'idle in transaction' AND classid::bigint << 32 | objid::bigint = {number}"
)


@asynccontextmanager
async def paused(process: CircadiaProcess) -> AsyncGenerator[None]:
    os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process.pid, signal.SIGCONT)


def find_worker(cluster: Cluster, program: int) -> CircadiaProcess:
    """Return the worker that has started a program."""
    parent = int(Path(f"/proc/{program}/stat").read_text().rpartition(")")[2].split()[1])
    return next(worker for worker in cluster.workers if worker.pid == parent)


async def pause_the_worker_of_a_pulse(folder: Path, url: str, seconds: float, *, short: bool) -> None:
    """Its pulse is taken over meanwhile, and its program killed: the worker sees that when it goes on."""
    notes = folder / "notes"
    notes.mkdir()
    program: dict[str, Any] = config(notes)["launchers"]
    async with four_processes(folder, url, short=short, launchers=program) as cluster:
        async with nullcontext() if short else under_load(cluster, draw_seed()):
            await cluster.processes[0].call("POST", "/sessions/default/agents", {"name": "dan"})
            await cluster.processes[0].call(
                "PATCH", "/agents/dan/coordination", {"launcher": "program", "heartbeat_minutes": None}
            )
            wake = {"to": "dan", "reason": "blocker", "message": "help"}
            pulse_id = (await cluster.processes[0].call("POST", "/wakes", {**wake}))["pulse"]
            await until_noted(notes, "start", 1)
            worker = find_worker(cluster, int(noted(notes)[0][3]))
            began = asyncio.get_running_loop().time()
            async with paused(worker):
                await until_noted(notes, "start", 2)
                await asyncio.sleep(began + seconds - asyncio.get_running_loop().time())
            await wait_until_back(cluster, worker, idle=short)
            (notes / "go").touch()
            ended = await wait_for_end(cluster)
        assert (ended["id"], ended["status"], ended["attempt"]) == (pulse_id, "succeeded", 2)
        events = (await cluster.get("/events?type=pulse&agent=dan"))["events"]
        statuses = [event["data"]["status"] for event in events]
        assert (statuses.count("starting"), statuses.count("succeeded"), statuses[-1]) == (2, 1, "succeeded")
        assert [line[0] for line in noted(notes)] == ["start", "start", "done"]


async def wait_until_back(cluster: Cluster, worker: CircadiaProcess, *, idle: bool) -> None:
    """Return once the worker is a member again; with `idle`, once its pulse is over for it."""
    async with asyncio.timeout(60):
        while not [
            member for member in (await cluster.get("/cluster"))["members"]
            if member["address"] == worker.url and not (idle and member["running"])
        ]:  # fmt: skip
            await asyncio.sleep(0.1)


async def wait_for_end(cluster: Cluster) -> dict[str, Any]:
    async with asyncio.timeout(60):
        while True:
            (pulse,) = (await cluster.get("/agents/dan/pulses"))["pulses"]
            if pulse["ended_at"] is not None:
                return pulse
            await asyncio.sleep(0.05)


@pytest.mark.spec("CLU-24")
async def test_a_worker_that_stood_still_for_longer_than_its_lease_changes_nothing_that_was_taken_over(
    tmp_path: Path, postgres_url: str
) -> None:
    await pause_the_worker_of_a_pulse(tmp_path, postgres_url, 0, short=True)


@pytest.mark.slow
@pytest.mark.spec("CLU-24")
async def test_a_worker_that_stood_still_for_sixty_seconds_changes_nothing_that_was_taken_over(
    tmp_path: Path, postgres_url: str
) -> None:
    await pause_the_worker_of_a_pulse(tmp_path, postgres_url, 60, short=False)


@pytest.mark.spec("CLU-24")
async def test_a_gateway_that_stands_still_in_a_transaction_holds_up_others_for_two_seconds_at_most(
    tmp_path: Path, postgres_url: str
) -> None:
    source = random.Random(7)
    async with four_processes(tmp_path, postgres_url) as cluster, connected(postgres_url) as database:
        gateway, other = cluster.gateways
        ann = (await gateway.call("POST", "/sessions/default/agents", {"name": "ann"}))["id"]
        is_held = KEY_IS_HELD.format(number=agent_key(AgentId(ann)).number)
        writers = [asyncio.create_task(write_again_and_again(cluster.http, gateway)) for _ in range(4)]
        try:
            for _ in range(1000):
                await asyncio.sleep(source.uniform(0, 0.02))
                async with paused(gateway):
                    if (await database.exec_driver_sql(is_held)).scalar_one():
                        began = asyncio.get_running_loop().time()
                        await other.call("POST", "/messages", {"to": "ann", "content": "from the other"})
                        held_up = asyncio.get_running_loop().time() - began
                        break
            else:
                pytest.fail("the gateway never stood still in a transaction")
        finally:
            for writer in writers:
                writer.cancel()
            await asyncio.gather(*writers, return_exceptions=True)
        print(f"held up for {held_up:.2f} s")
        assert 0.5 < held_up < HELD_UP_SECONDS + OWN_SECONDS
        await gateway.call("POST", "/messages", {"to": "ann", "content": "when it goes on"})


async def write_again_and_again(http: aiohttp.ClientSession, gateway: CircadiaProcess) -> None:
    while True:
        async with http.post(f"{gateway.url}/api/v1/messages", json={"to": "ann", "content": "hello"}) as answer:
            await answer.read()
