"""A migration of a large table on PostgreSQL, beside a server that writes to it."""

import asyncio
import signal
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import NullPool
from sqlalchemy.ext.asyncio import create_async_engine

from tests.cli.terminal import run
from tests.cluster.releases import Migration, install_release, newest_number
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.program import Program
from tests.fixtures.server_process import CircadiaProcess

ROWS = 100_000
LONGEST_WAIT_SECONDS = 2.0
WRITERS = 4
INDEX = "events_place"
EXPAND = Migration(
    name="Places of events",
    works_with=newest_number(),
    statement="ALTER TABLE events ADD COLUMN place VARCHAR",
    indexes=[(INDEX, "events", ["session", "agent", "type"])],
)
FILL = f"""INSERT INTO events (number, type, at, session, agent, data)
    SELECT number, 'message_sent', number, 'team', 'agent-' || number % 1000, '{{}}'
    FROM generate_series(1, {ROWS}) AS number"""
IS_VALID = f"SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('{INDEX}')"
WAIT = """SELECT coalesce(max(extract(epoch FROM clock_timestamp() - waitstart)), 0)::float FROM pg_locks
    JOIN pg_stat_activity USING (pid) WHERE NOT granted AND application_name = 'circadia'"""
CUT_BUILD = """SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
    WHERE query LIKE 'CREATE INDEX CONCURRENTLY%' AND datname = current_database() AND pid <> pg_backend_pid()"""


class Writers:
    """Programs that send messages, and how long their server has waited for a lock in the database."""

    def __init__(self, server: CircadiaProcess, url: str) -> None:
        self._server = server
        self._url = url
        self.written = 0
        self.longest_wait = 0.0

    async def write(self, number: int) -> None:
        while True:
            await self._server.call("POST", "/messages", {"to": f"team:agent-{number}", "content": "hello"})
            self.written += 1
            await asyncio.sleep(0.05)

    async def watch(self) -> None:
        async with open_connection(self._url, isolation_level="AUTOCOMMIT") as connection:
            while True:
                self.longest_wait = max(self.longest_wait, (await connection.exec_driver_sql(WAIT)).scalar_one())
                await asyncio.sleep(0.05)

    async def go_on(self) -> None:
        """Return when they have written ten times each, on average."""
        wanted = self.written + 10 * WRITERS
        async with asyncio.timeout(60):
            while self.written < wanted:
                await asyncio.sleep(0.05)


@asynccontextmanager
async def writing(server: CircadiaProcess, url: str) -> AsyncGenerator[Writers]:
    """Each write must succeed."""
    await server.create_session("team", [{"name": f"agent-{number}"} for number in range(WRITERS)])
    writers = Writers(server, url)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(writers.write(number)) for number in range(WRITERS)]
        tasks.append(group.create_task(writers.watch()))
        yield writers
        for task in tasks:
            task.cancel()


@asynccontextmanager
async def open_connection(url: str, *statements: str, **options: Any) -> AsyncGenerator[Any]:
    """A connection of somebody else, in an open transaction unless the options say otherwise."""
    engine = create_async_engine("postgresql+asyncpg://", connect_args={"dsn": url}, poolclass=NullPool, **options)
    async with engine.connect() as connection:
        for statement in statements:
            await connection.exec_driver_sql(statement)
        yield connection


async def read_until(program: Program, words: str) -> None:
    """Return when the program has said the words."""
    said = ""
    while words not in said:
        line = (await program.stdout.readline()).decode()
        assert line, f"the program ended without {words!r}: {said}"
        said += line


async def kill(program: Program) -> None:
    program.send_signal(signal.SIGKILL)
    await program.wait()


@pytest.mark.timeout(300)
@pytest.mark.spec("LARGE-10", "CLU-30")
async def test_an_index_is_built_beside_writers_and_its_build_is_taken_up_again_after_kills(
    tmp_path: Path, postgres_url: str, postgres_server: PostgresServer
) -> None:
    present, following = install_release(tmp_path, "1.0"), install_release(tmp_path, "1.1", EXPAND)
    config: dict[str, Any] = {"server": {"database_url": postgres_url, "drain_seconds": 1}}
    (tmp_path / "circadia.yaml").write_text(yaml.safe_dump(config), "utf-8")
    name = postgres_url.removeprefix("postgresql://postgres@/").partition("?")[0]

    async def execute(statement: str) -> Any:
        return await postgres_server.execute(statement, database=name)

    async def start_migration() -> Program:
        return await following.start("migrate", "--config", str(tmp_path / "circadia.yaml"))

    await execute(FILL)
    await execute(f"SELECT setval('event_numbers', {ROWS + 1}, false)")
    async with (
        present.serve(tmp_path / "server", config) as server,
        writing(server, postgres_url) as writers,
        AsyncExitStack() as until_end,
    ):
        snapshot = open_connection(postgres_url, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "SELECT 1")
        async with open_connection(postgres_url, "SELECT FROM events LIMIT 1"):  # no column can be added meanwhile
            migration = await start_migration()
            await read_until(migration, "waits for a locked table")
            for _ in range(3):
                await writers.go_on()
            await until_end.enter_async_context(snapshot)  # no index becomes valid meanwhile
        await read_until(migration, f"CREATE INDEX CONCURRENTLY {INDEX} ON events")
        async with asyncio.timeout(60):
            while await execute(IS_VALID) is None:
                await asyncio.sleep(0.05)
        await kill(migration)
        await writers.go_on()
        migration = await start_migration()
        await read_until(migration, f"index {INDEX} is being built for a process that has ended")
        await kill(migration)
        assert await execute(CUT_BUILD)
        assert await execute(IS_VALID) is False
        migration = await start_migration()
        await read_until(migration, f"DROP INDEX CONCURRENTLY {INDEX}")
        await read_until(migration, f"CREATE INDEX CONCURRENTLY {INDEX} ON events")
        await writers.go_on()
        await until_end.aclose()
        assert await migration.wait() == 0
        assert await execute(IS_VALID) is True
        await writers.go_on()
    assert writers.longest_wait < LONGEST_WAIT_SECONDS


@pytest.mark.spec("CLU-30")
async def test_a_server_that_does_not_migrate_waits_for_the_indexes(
    tmp_path: Path, postgres_url: str, postgres_server: PostgresServer
) -> None:
    config = {"server": {"database_url": postgres_url}}
    (tmp_path / "circadia.yaml").write_text(yaml.safe_dump(config), "utf-8")
    name = postgres_url.removeprefix("postgresql://postgres@/").partition("?")[0]
    await postgres_server.execute("DROP INDEX calls_at", database=name)
    (tmp_path / "server").mkdir()
    server = CircadiaProcess(tmp_path / "server", config, options=("--no-migrate",))
    starting = asyncio.create_task(server.__aenter__())
    async with asyncio.timeout(60):
        while "the indexes calls_at are not built yet: waiting until `circadia migrate` has run" not in server.log:
            await asyncio.sleep(0.05)
    migration = await run("migrate", "--config", str(tmp_path / "circadia.yaml"), "--json")
    assert (migration.status, migration.json["migrations"]) == (0, [])
    assert "CREATE INDEX CONCURRENTLY calls_at" in migration.err
    await starting
    await server.__aexit__()
