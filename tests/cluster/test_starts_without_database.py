"""A process starts while PostgreSQL is away: it waits and says so, unless waiting cannot help."""

import asyncio
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from circadia.clock import SystemClock
from tests.durability.test_database_away import WAYS
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.server_process import CircadiaProcess

pytestmark = pytest.mark.spec("CLU-126")

NO_NAME = "postgresql://postgres@no-such-host.invalid/circadia"


async def probe(url: str, path: str) -> tuple[int, str, str | None]:
    """Return status, text and Retry-After of a path, once something listens."""
    async with aiohttp.ClientSession() as http, asyncio.timeout(60):
        while True:
            try:
                async with http.get(f"{url}{path}") as answer:
                    return answer.status, await answer.text(), answer.headers.get("retry-after")
            except aiohttp.ClientConnectionError:
                await SystemClock().sleep(0.02)


@asynccontextmanager
async def starting(
    folder: Path, url: str, role: str = "all"
) -> AsyncGenerator[tuple[CircadiaProcess, asyncio.Task[Any], str]]:
    """Start a process; yield it with its start, and with its URL, which it has not told yet."""
    server = CircadiaProcess(folder, {"server": {"database_url": url}}, options=["--role", role])
    begun = asyncio.create_task(server.__aenter__())
    try:
        async with asyncio.timeout(60):
            while server.port == 0:
                await asyncio.sleep(0)
        yield server, begun, f"http://127.0.0.1:{server.port}"
    finally:
        await asyncio.gather(begun, return_exceptions=True)
        if not begun.cancelled() and begun.exception() is None:
            await server.__aexit__()


@pytest.mark.parametrize("role", ["gateway", "worker"])
@pytest.mark.parametrize("way", WAYS)
async def test_a_start_without_postgresql_waits_answers_probes_and_goes_on_when_it_is_back(
    tmp_path: Path, postgres_server: PostgresServer, postgres_url: str, way: str, role: str
) -> None:
    with WAYS[way](postgres_server):
        entered = starting(tmp_path, postgres_url, role)
        server, begun, url = await entered.__aenter__()
        assert await probe(url, "/healthz") == (200, "ok\n", None)
        status, text, _ = await probe(url, "/readyz")
        assert (status, text) == (503, "starting: cannot open the PostgreSQL database: PostgreSQL does not answer\n")
        status, text, retry_after = await probe(url, "/api/v1/agents")
        assert (status, "storage_unavailable" in text, retry_after) == (503, True, "1")
        await SystemClock().sleep(3)  # some tries more
        assert server.log.count("the start waits") == 1
        assert not begun.done()
    try:
        await begun
        assert (await probe(url, "/readyz"))[:2] == (200, "ready\n")
    finally:
        await entered.__aexit__(None, None, None)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_wait_at_once_and_a_name_that_is_not_known_is_waited_for(
    tmp_path: Path, number: signal.Signals
) -> None:
    async with starting(tmp_path, NO_NAME) as (server, _, url):
        assert (await probe(url, "/readyz"))[0] == 503
        began = SystemClock().monotonic()
        server.send_signal(number)
        assert await server.gone() == (130 if number is signal.SIGINT else 0)
        assert SystemClock().monotonic() - began < 20


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgresql://postgres@[::1/none", "its URL is malformed"),
        ("postgresql://nobody-known@/{database}?host={folder}", "nobody-known"),
        ("postgresql://postgres@/no_such_database?host={folder}", "no_such_database"),
    ],
    ids=["malformed", "no such user", "no such database"],
)
async def test_what_waiting_cannot_mend_ends_the_start_with_its_error(
    tmp_path: Path, postgres_server: PostgresServer, postgres_url: str, url: str, words: str
) -> None:
    database = postgres_url.removeprefix("postgresql://postgres@/").partition("?")[0]
    url = url.format(database=database, folder=postgres_server.folder)
    async with starting(tmp_path, url) as (server, begun, _):
        with pytest.raises(AssertionError, match="the server ended before it listened"):
            await begun
        assert await server.gone() == 10
        assert words in server.log
        assert "the start waits" not in server.log
