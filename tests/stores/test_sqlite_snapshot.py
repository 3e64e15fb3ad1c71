"""A snapshot of a SQLite database that is written to."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from circadia.stores.sqlite_snapshot import write_snapshot
from tests.fixtures.database_file import put_database

pytestmark = pytest.mark.spec("CLU-32")


def test_commits_beside_a_snapshot_do_not_make_it_start_again_and_are_not_in_it(tmp_path: Path) -> None:
    path, file = put_database(tmp_path), tmp_path / "copy.db"
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("CREATE TABLE ballast (filling BLOB)")
        writer.execute("INSERT INTO ballast VALUES (randomblob(10000000))")
        writer.commit()
        steps: list[int] = []

        def commit_more(done: int, total: int) -> None:
            steps.append(done)
            writer.execute("INSERT INTO ballast VALUES (?)", (f"step {len(steps)}",))
            writer.commit()
            assert len(steps) < 100, "the copy began again and again"

        write_snapshot(path, file, commit_more)
    assert len(steps) > 5
    assert steps == sorted(set(steps))
    with closing(sqlite3.connect(file)) as copy:
        assert copy.execute("SELECT count(*) FROM ballast").fetchone() == (1,)
