"""A server starts with a file that names a bank template which 100,000 end users have banks of."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from benchmarks.postgres import connect
from tests.fixtures.server_process import CircadiaProcess

pytestmark = [pytest.mark.spec("LARGE-04"), pytest.mark.timeout(300)]
USERS: Final = 100_000
"""More than the locks that PostgreSQL has for a transaction."""
TEMPLATE: Final = "user-{user}"
NUMBERS: Final = {
    "sqlite": f"WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {USERS}) SELECT n FROM c",
    "postgresql": f"SELECT n FROM generate_series(1, {USERS}) AS n",
}


def build_insert(dialect: str) -> str:
    """Return what adds the banks; all but a few have the policy that the file states."""
    return f"""
        INSERT INTO banks (id, name, description, template, end_user, policy, generation, skipped, created_at)
        SELECT 'bnk_u' || n, 'user-' || n, '', '{TEMPLATE}', n,
          CASE WHEN n % 10000 < 3 THEN policy ELSE '{{"keep_days": 30}}' END, generation, skipped, created_at
        FROM banks, ({NUMBERS[dialect]}) AS numbers WHERE name = 'first'
    """


async def make_banks_of_users(server: CircadiaProcess, url: str | None) -> None:
    await server.call("POST", "/banks", {"name": "first"})
    if url is None:
        with closing(sqlite3.connect(server.data / "circadia.db", timeout=60)) as database, database:
            database.execute(build_insert("sqlite"))
        return
    connection = await connect(url)
    await connection.execute(build_insert("postgresql"))
    await connection.close()


async def test_the_file_changes_the_banks_of_100000_end_users_in_pages(world_url: str | None, tmp_path: Path) -> None:
    config = {} if world_url is None else {"server": {"database_url": world_url}}
    async with CircadiaProcess(tmp_path, config) as server:
        await make_banks_of_users(server, world_url)
        server.config["banks"] = {TEMPLATE: {"keep_days": 30}}
        await server.restart()
        for after in ("", "user-9", "user-9999"):
            page = (await server.call("GET", f"/banks?template={TEMPLATE}&limit=5&after={after}"))["banks"]
            assert [bank["policy"]["keep_days"] for bank in page] == [30] * 5
