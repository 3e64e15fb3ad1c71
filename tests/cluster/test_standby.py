"""A synchronous standby of PostgreSQL that hangs, and one that takes over from a primary that was killed."""

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from circadia.stores.postgres import create_postgres_engine
from tests.cluster.four_processes import four_processes
from tests.cluster.load import under_load
from tests.cluster.test_kills import draw_seed
from tests.fixtures.postgres import PostgresServer
from tests.interaction.live import live

DATABASE: Final = "circadia"
BACK_SECONDS: Final = 5.0


@pytest.fixture
def primary() -> Generator[PostgresServer]:
    yield from run(PostgresServer())


@pytest.fixture
async def standby(primary: PostgresServer) -> AsyncGenerator[PostgresServer]:
    """A standby that each commit waits for."""
    await primary.execute(f"CREATE DATABASE {DATABASE}")
    for server in run(await asyncio.to_thread(PostgresServer, primary)):
        await primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        await primary.execute("SELECT pg_reload_conf()")
        yield server


def run(server: PostgresServer) -> Generator[PostgresServer]:
    try:
        server.start()
        yield server
    finally:
        server.remove()


@asynccontextmanager
async def hanging(standby: PostgresServer) -> AsyncGenerator[None]:
    standby.freeze()
    try:
        yield
    finally:
        standby.thaw()


def url_of_both(primary: PostgresServer, standby: PostgresServer) -> str:
    """Return the URL of whichever of the two takes writes."""
    hosts = f"host={primary.folder},{standby.folder}&port=5432,5432"
    return f"postgresql://postgres@/{DATABASE}?{hosts}&target_session_attrs=read-write"


@pytest.mark.spec("CLU-24")
async def test_while_a_synchronous_standby_hangs_writes_get_503_and_reads_and_held_calls_go_on(
    tmp_path: Path, primary: PostgresServer, standby: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = partial(create_postgres_engine, command_seconds=3.0)  # of thirty
    monkeypatch.setattr("circadia.stores.postgres.create_postgres_engine", engine)
    message: dict[str, Any] = {"to": "bob", "content": "Please look.", "key": "k"}
    async with live(tmp_path, server={"database_url": primary.url(DATABASE)}) as at:
        ann, _ = await at.agent(), await at.agent("bob")
        await at.sleeping(True)
        async with asyncio.timeout(60), asyncio.TaskGroup() as calls:
            answer = calls.create_task(at.answered(ann))
            await at.held(1)
            async with hanging(standby):
                for _ in range(2):  # a repeat may not be acknowledged either: the message is on one machine only
                    status, problem = await at.rest("POST", "/messages", message)
                    assert status == 503, problem
                assert (await at.rest("GET", "/sessions/default/agents/ann"))[0] == 200
                await at.held(1)
            status, first = await at.rest("POST", "/messages", message)
            assert status == 201
            assert (await at.rest("POST", "/messages", message))[1]["message"] == first["message"]
            assert (await at.rest("GET", "/agents/bob/inbox"))[1]["counts"]["unread"] == 1
            await at.sleeping(False)
        assert answer.result()[0] == 200


@pytest.mark.timeout(300)  # on a busy machine
@pytest.mark.spec("CLU-21")
async def test_a_standby_takes_over_from_a_killed_primary_and_all_goes_on_within_five_seconds(
    tmp_path: Path, primary: PostgresServer, standby: PostgresServer
) -> None:
    async with (
        four_processes(tmp_path, url_of_both(primary, standby)) as cluster,
        under_load(cluster, draw_seed()) as load,
    ):
        await load.wait_for_more(50)
        primary.kill()
        await load.wait_for_refusal()
        await standby.execute("ALTER SYSTEM RESET synchronous_standby_names")
        await standby.execute("SELECT pg_promote()")
        await load.wait_until_back(BACK_SECONDS)
        await load.wait_for_more(50)
