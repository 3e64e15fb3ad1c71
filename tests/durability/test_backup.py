"""Backups while the server writes: what was acknowledged before is in the server that is made from them."""

import asyncio
import os
import re
import shlex
import sqlite3
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from sqlalchemy import NullPool
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from circadia.stores.locks import EVENTS_KEY
from tests.cli.terminal import Program, run, started
from tests.durability.message_load import MessageLoad
from tests.fixtures.database_file import put_database
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.server_process import CircadiaProcess
from tests.house.tree import DOCS

BALLAST_BYTES = 60_000_000
"""So many that a copy takes several steps, between which the server commits."""
FEW = 50
PAGE = DOCS / "operations" / "backup.md"

pytestmark = pytest.mark.spec("CLU-32")


def put_large_database(folder: Path) -> None:
    folder.mkdir(parents=True)
    with closing(sqlite3.connect(put_database(folder))) as connection:
        connection.execute("CREATE TABLE ballast (filling BLOB)")
        connection.execute("INSERT INTO ballast VALUES (randomblob(?))", (BALLAST_BYTES,))
        connection.commit()


@asynccontextmanager
async def connect(url: str) -> AsyncGenerator[AsyncConnection]:
    engine = create_async_engine("postgresql+asyncpg://", connect_args={"dsn": url}, poolclass=NullPool)
    async with engine.connect() as connection:
        yield connection


async def require_success(program: Program) -> None:
    result = await program.ended()
    assert result.status == 0, result


async def run_documented(program: str, server: PostgresServer, names: Mapping[str, str]) -> None:
    """Run the program as the page about backups says, with other names."""
    (line,) = re.findall(rf"^{program} .*$", PAGE.read_text("utf-8"), re.M)
    for name, other in names.items():
        line = line.replace(f"postgresql://circadia@db.internal/{name}" if "." not in name else name, other)
    await asyncio.to_thread(server.run_program, *shlex.split(line))


async def require_new_events(server: CircadiaProcess, last: int) -> None:
    """Assert that what happens now gets greater numbers, and that a reader hears it who had seen more than is here."""
    headers = {**server.admin, "Last-Event-ID": str(last + 1000)}
    async with (
        asyncio.timeout(60),
        aiohttp.ClientSession(headers=headers) as http,
        http.get(f"{server.url}/api/v1/events/stream") as stream,
    ):
        await stream.content.readuntil(b"\n\n")
        await server.call("POST", "/sessions/team/threads", {"name": "new", "participants": ["ann"]})
        new = (await server.call("GET", f"/events?after={last}"))["events"]
        assert "thread_created" in {event["type"] for event in new}
        assert (await stream.content.readline()).strip() == f"id: {new[0]['number']}".encode()
    ahead = await server.call("GET", f"/events?after={last + 1000}")
    assert (ahead["events"], ahead["after"]) == ([], new[-1]["number"])


async def fetch_messages_of_events(server: CircadiaProcess) -> tuple[int, list[str]]:
    """Return the last number of the feed, and the message of each event of type `message`, in order."""
    after, messages = 0, list[str]()
    while True:
        page = await server.call("GET", f"/events?after={after}&limit=10000")
        if not page["events"]:
            return after, messages
        messages += [event["data"]["message"] for event in page["events"] if event["type"] == "message"]
        after = page["after"]


async def require_complete(server: CircadiaProcess, load: MessageLoad, acknowledged: list[str]) -> None:
    """Assert that the server has these messages, an event of each of its messages, and goes on."""
    stored = await load.fetch_stored(server)
    assert set(acknowledged) <= set(stored)
    assert len(stored) == len(set(stored))
    last, announced = await fetch_messages_of_events(server)
    assert (len(announced), len(set(announced))) == (len(stored), len(stored))
    await require_new_events(server, last)


async def test_a_backup_of_a_server_that_writes_has_all_that_was_acknowledged_before_and_a_server_runs_on_it(
    tmp_path: Path,
) -> None:
    put_large_database(tmp_path / "here" / "data")
    file, there = tmp_path / "copy.db", tmp_path / "there"
    async with CircadiaProcess(tmp_path / "here") as server:
        async with MessageLoad.start(server) as load:
            acknowledged = await load.wait_for_more(FEW)
            async with started("backup", str(file), "--data", str(server.data)) as backup:
                await require_success(backup)
            assert len(load.acknowledged) > len(acknowledged), "nothing was written meanwhile"
            await load.wait_for_more(FEW)  # writes go on
        await server.kill9()
    assert file.stat().st_mode & 0o777 == 0o600
    assert (await run("restore", str(file), "--data", str(there / "data"))).status == 0
    async with CircadiaProcess(there) as restored:
        await require_complete(restored, load, acknowledged)


@pytest.mark.parametrize("way", ["pg_dump", "circadia export"])
async def test_a_dump_of_servers_that_write_has_all_that_was_acknowledged_before_also_events_without_a_number(
    tmp_path: Path, postgres_server: PostgresServer, postgres_url: str, empty_postgres_url: str, way: str
) -> None:
    config: dict[str, Any] = {"server": {"database_url": postgres_url}}
    file = postgres_server.folder / f"{way.split()[0]}-{os.getpid()}.dump"
    async with CircadiaProcess(tmp_path / "here", config) as server:
        async with MessageLoad.start(server) as load, connect(postgres_url) as connection:
            await load.wait_for_more(FEW)
            # Nothing gives numbers to events from now on.
            await connection.exec_driver_sql(f"SELECT pg_advisory_lock({EVENTS_KEY.number})")
            acknowledged = await load.wait_for_more(FEW)
            if way == "pg_dump":
                await run_documented("pg_dump", postgres_server, {"circadia": postgres_url, "monday.dump": str(file)})
            else:
                words = ("export", str(file), "--config", str(server.folder / "circadia.yaml"))
                async with started(*words) as export:
                    await require_success(export)
            query = await connection.exec_driver_sql("SELECT count(*) FROM events WHERE number < 0")
            assert query.scalar_one() > 0, "all events had numbers"
            assert len(load.acknowledged) > len(acknowledged), "nothing was written meanwhile"
        await server.kill9()
    if way == "pg_dump":
        await run_documented("pg_restore", postgres_server, {"restored": empty_postgres_url, "monday.dump": str(file)})
        config = {"server": {"database_url": empty_postgres_url}}
    else:
        assert (await run("restore", str(file), "--data", str(tmp_path / "there" / "data"))).status == 0
        config = {}
    async with CircadiaProcess(tmp_path / "there", config) as restored:
        await require_complete(restored, load, acknowledged)
    file.unlink()


@asynccontextmanager
async def archiving_server() -> AsyncGenerator[PostgresServer]:
    """Run a PostgreSQL of the test's own that archives its log."""
    server = PostgresServer()
    archive = server.folder / "archive"
    settings = {"archive_mode": "on", "archive_command": f"mkdir -p {archive} && cp %p {archive}/%f"}
    try:
        set_postgres(server, settings)
        await asyncio.to_thread(server.start)
        yield server
    finally:
        server.remove()


def set_postgres(server: PostgresServer, settings: Mapping[str, str]) -> None:
    with (server.folder / "data" / "postgresql.conf").open("a") as file:
        file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())


async def wait_until_archived(connection: AsyncConnection) -> None:
    """Return once all that is in the log by now is archived."""
    query = "SELECT pg_walfile_name(pg_switch_wal())"
    wanted = (await connection.exec_driver_sql(query)).scalar_one()
    async with asyncio.timeout(60):
        while (await fetch_archived(connection)) < wanted:
            await asyncio.sleep(0.05)


async def fetch_archived(connection: AsyncConnection) -> str:
    query = await connection.exec_driver_sql("SELECT coalesce(last_archived_wal, '') FROM pg_stat_archiver")
    archived: str = query.scalar_one()
    await connection.commit()  # statistics stay the same within a transaction
    return archived


async def test_a_recovery_to_an_instant_has_all_that_was_acknowledged_before_it(tmp_path: Path) -> None:
    async with archiving_server() as postgres:
        await postgres.execute("CREATE DATABASE here")
        config: dict[str, Any] = {"server": {"database_url": postgres.url("here")}}
        async with CircadiaProcess(tmp_path / "here", config) as server:
            async with MessageLoad.start(server) as load, connect(postgres.url("here")) as connection:
                await load.wait_for_more(FEW)
                base = ("--pgdata=base", "--checkpoint=fast", f"--host={postgres.folder}", "--username=postgres")
                await asyncio.to_thread(postgres.run_program, "pg_basebackup", *base)
                acknowledged = await load.wait_for_more(FEW)
                instant = (await connection.exec_driver_sql("SELECT clock_timestamp()::text")).scalar_one()
                await connection.commit()
                await load.wait_for_more(FEW)
                await wait_until_archived(connection)
            await server.kill9()
        postgres.stop()
        (postgres.folder / "data").rename(postgres.folder / "lost")
        (postgres.folder / "base").rename(postgres.folder / "data")
        set_postgres(postgres, {
            "archive_mode": "off", "restore_command": f"cp {postgres.folder}/archive/%f %p",
            "recovery_target_time": instant, "recovery_target_action": "promote",
        })  # fmt: skip
        (postgres.folder / "data" / "recovery.signal").touch()
        await asyncio.to_thread(postgres.start)
        async with CircadiaProcess(tmp_path / "there", config) as recovered:
            await require_complete(recovered, load, acknowledged)
            assert len(await load.fetch_stored(recovered)) < len(load.acknowledged), "it went on after the instant"
