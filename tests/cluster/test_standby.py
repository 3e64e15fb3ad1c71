"""A synchronous standby of PostgreSQL that hangs, and one that takes over from a primary that was killed."""

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

from circadia.stores.postgres import create_postgres_engine
from tests.cluster.four_processes import four_processes
from tests.cluster.load import under_load
from tests.cluster.test_kills import draw_seed
from tests.fixtures.postgres import PostgresServer
from tests.interaction.live import Live, live

DATABASE: Final = "circadia"
BACK_SECONDS: Final = 5.0
MORE_THAN_A_SEQUENCE_SKIPS: Final = 40
"""After a crash or a promotion a sequence goes on after 32 unused numbers at most; fewer hide a reused one."""


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


async def wait_for_copy(primary: PostgresServer, standby: PostgresServer) -> None:
    """Return once the standby has replayed all that the primary has written."""
    place = await primary.execute("SELECT pg_current_wal_lsn()::text")
    async with asyncio.timeout(60):
        while not await standby.execute(f"SELECT pg_last_wal_replay_lsn() >= '{place}'::pg_lsn"):
            await asyncio.sleep(0.05)


async def cut_off(standby: PostgresServer) -> None:
    """Have the standby receive nothing more from its primary."""
    await standby.execute("ALTER SYSTEM SET primary_conninfo = ''")
    await standby.execute("SELECT pg_reload_conf()")
    async with asyncio.timeout(60):
        while await standby.execute("SELECT count(*) FROM pg_stat_wal_receiver"):
            await asyncio.sleep(0.05)


async def found(at: Live, question: str) -> list[str]:
    """Return the texts that a search of the bank `team` finds."""
    status, answer = await at.rest("GET", f"/banks/team/search?q={question}")
    assert status == 200, answer
    return sorted(hit["text"] for hit in answer["hits"])


@pytest.mark.timeout(300)  # on a busy machine
@pytest.mark.spec("CLU-21")
async def test_what_an_asynchronous_standby_has_lost_stays_in_no_cache(tmp_path: Path, primary: PostgresServer) -> None:
    await primary.execute(f"CREATE DATABASE {DATABASE}")
    for standby in run(await asyncio.to_thread(PostgresServer, primary)):
        server = {"database_url": url_of_both(primary, standby)}
        async with live(tmp_path, server=server, banks={"team": {}}) as at:

            async def remember(colour: str) -> None:
                body = {"text": f"The kettle is {colour}.", "speaker": "ann"}
                assert (await at.rest("POST", "/banks/team/episodes", body))[0] == 201

            ann, bob = await at.agent(bank="team"), await at.agent("bob")
            await remember("red")
            assert await found(at, "kettle") == ["The kettle is red."]
            await wait_for_copy(primary, standby)
            await cut_off(standby)
            lost, eve = await at.agent("lost"), await at.agent("eve")
            rotated = (await at.rest("POST", "/sessions/default/agents/bob/token"))[1]["token"]
            assert [(await at.answered(token))[0] for token in (rotated, lost, eve)] == [200] * 3
            await at.sleeping(True)
            await at.sleeping(True, "lost")
            for number in range(MORE_THAN_A_SEQUENCE_SKIPS):
                await remember(f"blue {number}")
            assert len(await found(at, "kettle")) > 1
            assert (await at.rest("POST", "/messages", {"to": "ann", "content": "Look."}))[0] == 201
            of_ann, of_lost = (asyncio.create_task(at.answered(token)) for token in (ann, lost))
            async with asyncio.timeout(120):
                while {hold["phase"] for hold in await at.held(2)} != {"opened"}:
                    await asyncio.sleep(0.05)
                primary.kill()
                await standby.execute("SELECT pg_promote()")
                assert (await of_ann)[0] == 200
                with pytest.raises(aiohttp.ClientPayloadError):  # it was open, so its end breaks the answer off
                    await of_lost
            assert [(await at.answered(token))[0] for token in (bob, rotated, lost, eve)] == [200, 401, 401, 401]
            assert await found(at, "kettle") == ["The kettle is red."]
            await remember("green")
            assert await found(at, "kettle") == ["The kettle is green.", "The kettle is red."]
            assert (await at.rest("POST", "/messages", {"to": "ann", "content": "Look again."}))[0] == 201
