"""`circadia backup`, `restore`, `export` and `import`: what they refuse, and what they leave as it was."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from circadia.server.folder import lock_folder
from tests.cli.terminal import refused, run
from tests.fixtures.database_file import put_database

pytestmark = pytest.mark.spec("CLU-32")


def put_data(home: Path, session: str = "mine") -> Path:
    """Make a data folder whose database has a session of this name."""
    folder = home / "data"
    folder.mkdir(exist_ok=True)
    with closing(sqlite3.connect(put_database(folder))) as connection:
        values = (f"ses_{session}", session)
        connection.execute("INSERT INTO sessions VALUES (?, ?, 'open', 0, NULL, 0, 0)", values)
        connection.commit()
    return folder


def list_sessions(file: Path) -> list[str]:
    with closing(sqlite3.connect(file)) as connection:
        return [name for (name,) in connection.execute("SELECT name FROM sessions ORDER BY name")]


async def test_a_backup_is_for_its_owner_only_and_overwrites_nothing(home: Path) -> None:
    data = put_data(home)
    written = await run("backup", "copy.db", "--data", str(data), "--json")
    assert written.json == {"written": "copy.db", "bytes": (home / "copy.db").stat().st_size}
    assert (home / "copy.db").stat().st_mode & 0o777 == 0o600
    assert list_sessions(home / "copy.db") == ["mine"]
    refused(await run("backup", "copy.db", "--data", str(data)), 5, "'copy.db' exists")
    refused(await run("backup", "other.db", "--data", str(home / "none")), 2, "has no database")


async def test_a_restore_puts_the_file_in_place_and_keeps_what_was_there(home: Path) -> None:
    data = put_data(home)
    await run("backup", "copy.db", "--data", str(data))
    put_data(home, "later")
    (replaced,) = [(await run("restore", "copy.db", "--data", str(data), "--json")).json["replaced"]]
    assert list_sessions(data / "circadia.db") == ["mine"]
    assert list_sessions(Path(replaced)) == ["later", "mine"]
    assert sorted(path.name for path in data.iterdir()) == ["circadia.db", Path(replaced).name, "lock"]


async def test_a_restore_is_refused_while_a_server_has_the_folder_and_changes_nothing(home: Path) -> None:
    data = put_data(home)
    await run("backup", "copy.db", "--data", str(data))
    put_data(home, "later")
    with lock_folder(data):
        refused(await run("restore", "copy.db", "--data", str(data)), 10, "another Circadia server", "stop it")
    assert list_sessions(data / "circadia.db") == ["later", "mine"]


@pytest.mark.parametrize("fault", ["text", "empty", "damaged"])
async def test_a_file_that_is_no_whole_backup_is_refused_and_the_database_stays(home: Path, fault: str) -> None:
    data, file = put_data(home), home / "copy.db"
    await run("backup", "copy.db", "--data", str(data))
    whole = file.read_bytes()
    page = 4096 * (len(whole) // 4096 - 2)
    file.write_bytes({"text": b"no database " * 999, "empty": b"", "damaged": whole[:page] + b"\7" * 8192}[fault])
    result = await run("restore", "copy.db", "--data", str(data))
    assert result.status != 0
    assert "copy.db" in result.err
    assert list_sessions(data / "circadia.db") == ["mine"]
    assert not list(data.glob("*.new"))


@pytest.mark.parametrize("name", ["nowhere.db", "data", "text.db", "empty.db"])
async def test_a_file_that_is_no_backup_is_refused_with_what_is_one(home: Path, name: str) -> None:
    put_data(home)
    (home / "text.db").write_bytes(b"no database " * 999)
    (home / "empty.db").touch()
    (home / "pg.yaml").write_text("server: {database_url: postgresql://nobody@127.0.0.1:1/none}\n", "utf-8")
    told = f"'{name}'", "name a file that `circadia backup` or `circadia export` wrote"
    refused(await run("restore", name, "--data", str(home / "data")), 2, *told)
    refused(await run("import", name, "--config", "pg.yaml"), 2, *told)


async def test_each_database_names_the_command_for_the_other(home: Path) -> None:
    put_data(home)
    await run("backup", "copy.db", "--data", str(home / "data"))
    (home / "pg.yaml").write_text("server: {database_url: postgresql://nobody@127.0.0.1:1/none}\n", "utf-8")
    refused(await run("backup", "b.db", "--config", "pg.yaml"), 2, "pg_dump", "circadia export")
    refused(await run("restore", "copy.db", "--config", "pg.yaml"), 2, "pg_restore", "circadia import")
    refused(await run("import", "copy.db"), 2, "server.database_url", "circadia restore")
    assert (await run("export", "c.db", "--config", "pg.yaml")).status != 0
    assert not (home / "c.db").exists()


async def test_an_import_is_whole_or_not_at_all_and_never_into_a_database_with_rows(
    home: Path, empty_postgres_url: str
) -> None:
    data = put_data(home)
    (home / "pg.yaml").write_text(f"server: {{database_url: '{empty_postgres_url}'}}\n", "utf-8")
    await run("backup", "copy.db", "--data", str(data))
    with closing(sqlite3.connect(home / "copy.db")) as broken:
        broken.execute("INSERT INTO threads VALUES ('t', 'ses_none', 'n', 'open', 'x', 0, NULL, NULL)")
        broken.commit()
    assert (await run("import", "copy.db", "--config", "pg.yaml")).status != 0
    with closing(sqlite3.connect(home / "copy.db")) as broken:
        broken.execute("DELETE FROM threads")
        broken.commit()
    assert (await run("import", "copy.db", "--config", "pg.yaml")).status == 0
    refused(await run("import", "copy.db", "--config", "pg.yaml"), 5, "has rows in 'sessions'")
    assert (await run("export", "out.db", "--config", "pg.yaml")).status == 0
    assert list_sessions(home / "out.db") == ["mine"]
