"""`circadia migrate` and `serve --no-migrate` on SQLite."""

from pathlib import Path

import pytest

from tests.cli.terminal import refused, run, started


@pytest.mark.spec("CLU-30")
async def test_a_dry_run_lists_the_migrations_and_changes_nothing_and_the_next_run_does_them_once(home: Path) -> None:
    data = str(home / "data")
    for words in (("--dry-run",), ()):
        listed = await run("migrate", "--data", data, "--json", *words)
        assert listed.status == 0
        numbers = [migration["number"] for migration in listed.json["migrations"]]
        assert numbers[:2] == ["0001", "0002"]
        assert listed.json["dry_run"] == bool(words)
    assert (await run("migrate", "--data", data, "--json")).json["migrations"] == []


async def test_the_database_of_a_running_server_on_sqlite_is_not_migrated(home: Path) -> None:
    words = ("--data", str(home / "data"))
    async with started("serve", "--port", "0", *words) as server:
        await server.until("listens")
        refused(await run("migrate", *words), 10, "another Circadia server", str(server.pid))


async def test_a_server_on_sqlite_waits_for_no_other_process_to_migrate(home: Path) -> None:
    async with started("serve", "--no-migrate", "--port", "0") as server:
        refused(await server.ended(), 10, "--no-migrate", "PostgreSQL")


async def test_a_database_that_cannot_be_reached_is_told(home: Path) -> None:
    (home / "circadia.yaml").write_text("server: {database_url: 'postgresql://nobody@127.0.0.1:9/none'}\n", "utf-8")
    refused(await run("migrate"), 10, "PostgreSQL")
