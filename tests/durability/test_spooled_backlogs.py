"""A gateway is stopped while PostgreSQL is away: what it has not written yet is there after its next start, once."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from circadia.clock import SystemClock
from circadia.testing.upstream import MockUpstream
from tests.durability.test_database_away import WAYS
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.server_process import PROGRAM, CircadiaProcess

pytestmark = pytest.mark.spec("CLU-31")

CALLS = 20
SECRET = "-".join(("sk", "proj", "Zx81Qm2nVb47Tr9Lk3Wd5Hc6Yp0As8Ef"))
REPLY = "Noted, that is what I shall remember."
Say = Callable[[int], Awaitable[None]]


async def count_stored(server: CircadiaProcess) -> tuple[int, Counter[str]]:
    """Return the calls in the ledger, and how often each text of a guest is in the bank."""
    usage: list[dict[str, Any]] = (await server.call("GET", "/usage?group_by=agent"))["usage"]
    episodes: list[dict[str, Any]] = (await server.call("GET", "/banks/team/episodes?limit=200"))["episodes"]
    return sum(each["calls"] for each in usage), Counter(
        each["text"] for each in episodes if each["text"].startswith("Remember")
    )


async def require_all_once(server: CircadiaProcess) -> None:
    async with asyncio.timeout(60):
        while (stored := await count_stored(server))[0] < CALLS or len(stored[1]) < CALLS or list_spool(server):
            await SystemClock().sleep(0.05)
    assert (stored[0], set(stored[1].values())) == (CALLS, {1})


def list_spool(server: CircadiaProcess) -> list[Path]:
    """Return the whole files: a kill may break off a draft."""
    return sorted((server.data / "spool").glob("*.jsonl"))


@asynccontextmanager
async def gateway(folder: Path, url: str, *, drain_seconds: float) -> AsyncGenerator[tuple[CircadiaProcess, Say]]:
    """Run a gateway with an agent whose bank keeps what is said, and say one thing."""
    async with MockUpstream(reply=REPLY) as provider, aiohttp.ClientSession() as http:
        config: dict[str, Any] = {
            # A call waits for seconds for a database that is frozen: each of them passes, however busy the machine is.
            "server": {"database_url": url, "drain_seconds": drain_seconds, "auth_grace_seconds": 300},
            "upstreams": {"openai": {"base_url": provider.base_url, "retries": 0}},
            "banks": {"team": {}},
            "sleeptime": {"when": "manual"},
        }
        async with CircadiaProcess(folder, config, options=["--role", "gateway"]) as server:
            agents = [{"name": "ann", "policy": {"bank": "team"}}]
            headers = {"authorization": f"Bearer {(await server.create_session('team', agents))['ann']}"}

            async def say(number: int) -> None:
                text = f"Remember that guest number {number} prefers room {number + 100} with key {SECRET}."
                body = {"model": "m", "messages": [{"role": "user", "content": text}]}
                url = f"{server.url}/llm/openai/v1/chat/completions"
                async with http.post(url, json=body, headers=headers) as answer:
                    assert answer.status == 200, await answer.text()

            await say(0)
            yield server, say


@pytest.mark.parametrize("way", WAYS)
async def test_what_a_gateway_could_not_write_before_its_end_is_spooled_and_written_once_at_its_next_start(
    tmp_path: Path, postgres_server: PostgresServer, postgres_url: str, way: str
) -> None:
    clock = SystemClock()
    async with gateway(tmp_path, postgres_url, drain_seconds=4) as (server, say):
        with WAYS[way](postgres_server):
            for number in range(1, CALLS):
                await say(number)
            began = clock.monotonic()
            server.begin_to_stop()
            async with asyncio.timeout(60):
                while len(list_spool(server)) < 2:
                    await clock.sleep(0.02)
            assert clock.monotonic() - began >= 4
            await server.kill9() if way == "frozen" else await server.gone()
        for file in list_spool(server):
            assert file.stat().st_mode & 0o777 == 0o600
            assert SECRET not in file.read_text()
        stands = tmp_path / "stands"
        server.program = ("tests.durability.spooling_server", str(stands))
        await server.start()
        async with asyncio.timeout(60):
            while not stands.exists():
                await clock.sleep(0.02)
        await server.kill9()
        assert len(list_spool(server)) >= 1
        server.program = PROGRAM
        await server.start()
        await require_all_once(server)


async def test_a_gateway_whose_database_comes_back_during_its_drain_writes_what_is_behind_and_spools_nothing(
    tmp_path: Path, postgres_server: PostgresServer, postgres_url: str
) -> None:
    async with gateway(tmp_path, postgres_url, drain_seconds=60) as (server, say):
        with WAYS["stopped"](postgres_server):
            for number in range(1, CALLS):
                await say(number)
            server.begin_to_stop()
            async with asyncio.timeout(60):
                while "cannot write" not in server.log:
                    await SystemClock().sleep(0.02)
        assert await server.gone() == 0
        assert list_spool(server) == []
        await server.start()
        await require_all_once(server)
