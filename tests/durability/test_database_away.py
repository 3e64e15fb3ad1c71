"""PostgreSQL is away for a while: nothing is admitted meanwhile, and all goes on by itself when it is back."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.durability.waking import config, noted, until_noted, until_settled
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.server_process import CircadiaProcess

pytestmark = pytest.mark.spec("WAKE-24", "WAKE-03")

ASK = {"to": "bob", "reason": "blocker", "message": "3", "key": "k"}


@contextmanager
def stopped(postgres: PostgresServer) -> Generator[None]:
    """Cut its connections, and refuse others."""
    postgres.stop()
    try:
        yield
    finally:
        postgres.start()


@contextmanager
def frozen(postgres: PostgresServer) -> Generator[None]:
    """Let it hold its connections and not answer."""
    postgres.freeze()
    try:
        yield
    finally:
        postgres.thaw()


WAYS = {"stopped": stopped, "frozen": frozen}


async def asked(http: aiohttp.ClientSession, url: str) -> tuple[int, Any]:
    """Ask to wake bob; always with the same key."""
    async with http.post(f"{url}/api/v1/wakes", json=ASK) as answer:
        if answer.status == 503:
            assert int(answer.headers["Retry-After"]) >= 1
        return answer.status, await answer.json()


def starts(notes: Path) -> int:
    return sum(line[0] == "start" for line in noted(notes))


async def check(folder: Path, postgres: PostgresServer, url: str, way: str, seconds: float) -> None:
    notes = folder / "notes"
    notes.mkdir()
    async with (
        CircadiaProcess(folder, {**config(notes), "server": {"database_url": url, "auth_grace_seconds": 1}}) as server,
        aiohttp.ClientSession(headers=server.admin) as http,
    ):
        for text in ("1", "2"):
            told = await server.call("POST", "/wakes", {"to": "ann", "reason": "blocker", "message": text})
            await until_noted(notes, "start", 1)
        assert told["rule"] == "busy"
        with WAYS[way](postgres):
            (notes / "go").touch()
            await until_noted(notes, "done", 1)  # an end that nobody can write down
            asking = asyncio.create_task(asked(http, server.url))
            await asyncio.sleep(seconds)
            if way == "stopped":
                assert asking.done()
                async with aiohttp.request("GET", f"{server.url}/readyz") as answer:
                    assert (answer.status, await answer.text()) == (503, "PostgreSQL does not answer\n")
            if asking.done():
                status, problem = asking.result()
                assert (status, problem["code"]) == (503, "storage_unavailable")
                assert "PostgreSQL does not answer" in problem["detail"]
            assert starts(notes) == 1
        await until_noted(notes, "done", 2)  # what was deferred has run, and nobody has asked for it again
        status, told = await asking
        assert status in (201, 503)
        async with asyncio.timeout(60):
            while (again := await asked(http, server.url))[0] == 503:
                await asyncio.sleep(0.1)
        assert again[0] == 201
        pulses = await until_settled(server)
        assert [(each["status"], each["attempt"]) for each in pulses] == [("succeeded", 1)] * 3
        assert starts(notes) == 3
        wakes = (await server.call("GET", "/wakes"))["wakes"]
        assert [(each["agent"], each["decision"], each["charge"]) for each in reversed(wakes)] == [
            ("ann", "admitted", "charged"), ("ann", "admitted", "charged"), ("bob", "admitted", "charged"),
        ]  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
async def test_while_postgresql_is_away_nothing_is_admitted_and_then_all_goes_on_by_itself(
    tmp_path: Path, postgres_server: PostgresServer, postgres_url: str, way: str
) -> None:
    await check(tmp_path, postgres_server, postgres_url, way, 3)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
async def test_so_it_is_when_postgresql_is_away_for_half_a_minute(
    tmp_path: Path, postgres_server: PostgresServer, postgres_url: str, way: str
) -> None:
    await check(tmp_path, postgres_server, postgres_url, way, 30)
