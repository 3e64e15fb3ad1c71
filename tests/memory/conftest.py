"""A memory on each database, with an embedder that tests steer."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from circadia.stores.base import Store
from circadia.stores.postgres import open_postgres
from circadia.stores.sqlite import open_sqlite
from tests.fixtures.database_file import put_database
from tests.memory.world import World


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str | None:
    """The URL of a database of the test's own; none for SQLite."""
    return None if request.param == "sqlite" else request.getfixturevalue("postgres_url")


@pytest.fixture
async def store(url: str | None, tmp_path: Path) -> AsyncIterator[Store]:
    """A store with nothing in it."""
    opened = await (open_sqlite(put_database(tmp_path)) if url is None else open_postgres(url))
    yield opened
    await opened.close()


@pytest.fixture
async def world(store: Store) -> World:
    """A memory with one bank, `ann`."""
    return await World.made(store)
