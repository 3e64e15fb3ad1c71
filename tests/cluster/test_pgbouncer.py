"""PgBouncer in transaction mode between the servers and PostgreSQL, and limits of connections."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from circadia.errors import StartError
from tests.cluster.four_processes import four_processes
from tests.cluster.load import under_load
from tests.cluster.test_kills import draw_seed
from tests.fixtures.pgbouncer import pgbouncer, read_version
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.server_process import CircadiaProcess
from tests.interaction.live import live
from tests.interaction.test_cluster import list_members


@pytest.mark.slow
@pytest.mark.spec("CLU-23")
@pytest.mark.setting("server.direct_database_url")
async def test_servers_behind_pgbouncer_in_transaction_mode_lose_nothing_under_load(
    tmp_path: Path, postgres_server: PostgresServer, postgres_url: str
) -> None:
    """Each process may open one connection to PostgreSQL itself: that of the signals."""
    assert await read_version() >= (1, 21), "name a newer PgBouncer in CIRCADIA_TEST_PGBOUNCER"
    async with (
        pgbouncer(postgres_server, postgres_url, statements=200) as url,
        four_processes(tmp_path, url, direct_database_url=postgres_url) as cluster,
    ):
        async with under_load(cluster, draw_seed()) as load:
            await load.wait_for_more(200)
            await cluster.kill(cluster.workers[0])
            await load.wait_for_more(50)
        assert {member["connections"] for member in (await cluster.get("/cluster"))["members"]} == {1}


@pytest.mark.spec("CLU-23")
async def test_a_pooler_without_prepared_statements_is_refused_at_the_start_and_by_doctor(
    tmp_path: Path, postgres_server: PostgresServer, postgres_url: str
) -> None:
    async with pgbouncer(postgres_server, postgres_url, statements=0) as url:
        for _ in range(2):
            with pytest.raises(StartError, match=r"use PgBouncer 1\.21 or newer with max_prepared_statements"):
                async with live(tmp_path, server={"database_url": url}):
                    pass
        assert "use PgBouncer 1.21 or newer" in await run_doctor(tmp_path, database_url=url)


@pytest.mark.slow
@pytest.mark.spec("CLU-23")
async def test_a_pooler_without_a_direct_way_for_signals_is_refused_at_the_start(
    tmp_path: Path, postgres_server: PostgresServer, postgres_url: str
) -> None:
    assert await read_version() >= (1, 21), "name a newer PgBouncer in CIRCADIA_TEST_PGBOUNCER"
    async with pgbouncer(postgres_server, postgres_url, statements=200) as url:
        with pytest.raises(StartError, match=r"set server\.direct_database_url"):
            async with live(tmp_path, server={"database_url": url}):
                pass


@pytest.mark.spec("CLU-23")
async def test_a_process_whose_connections_would_be_too_many_with_those_of_others_does_not_start(
    tmp_path: Path, postgres_url: str
) -> None:
    """PostgreSQL has 200, of which three are reserved."""
    many: dict[str, Any] = {"database_url": postgres_url, "readers": 4, "writers": 91}
    async with live(tmp_path / "first", server=many) as first:
        with pytest.raises(StartError, match="PostgreSQL allows 197 connections; the other servers may open 99"):
            async with live(tmp_path / "second", server={**many, "writers": 92}):
                pass
        async with live(tmp_path / "third", server={**many, "writers": 90}):
            assert [member["connections"] for member in await list_members(first)] == [99, 98]
    report = await run_doctor(tmp_path, **many)
    assert "opens up to 99 connections; PostgreSQL allows 197" in report


@pytest.mark.spec("CLU-23")
async def test_of_a_process_that_died_and_started_again_only_the_last_start_counts(
    tmp_path: Path, postgres_url: str
) -> None:
    """Each opens up to 70 connections of 197; the leases of those that died run on."""
    server: dict[str, Any] = {"database_url": postgres_url, "readers": 4, "writers": 62}
    (tmp_path / "crashing").mkdir()
    async with CircadiaProcess(tmp_path / "crashing", {"server": server}) as crashing:
        for _ in range(3):
            await crashing.restart(kill=True)
        async with live(tmp_path / "other", server=server) as other:
            assert len(await list_members(other)) == 4 + 1
            await crashing.restart(kill=True)  # its own earlier starts do not count either
            assert len(await list_members(other)) == 5 + 1


async def run_doctor(folder: Path, **server: object) -> str:
    file = folder / "circadia.yaml"
    file.write_text(yaml.safe_dump({"server": {"port": 0, **server}}), "utf-8")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "circadia", "doctor"), "--config", file, "--data", folder, "--json",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    out, _ = await process.communicate()
    return out.decode()
