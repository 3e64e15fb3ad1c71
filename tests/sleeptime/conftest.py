"""What tests of ready answers share."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from circadia.memory.embedding.bundled import BundledEmbedder
from circadia.stores.postgres import open_postgres
from circadia.stores.sqlite import open_sqlite
from tests.fixtures.database_file import put_database
from tests.sleeptime.answers_stand import Hall, hall


@pytest.fixture(scope="package")
def embedder() -> BundledEmbedder:
    """The words that come with the package, loaded once."""
    return BundledEmbedder()


@pytest.fixture
async def one(tmp_path: Path, embedder: BundledEmbedder) -> AsyncIterator[Hall]:
    """A hall, whose provider says that Ann lives in Porto."""
    store = await open_sqlite(put_database(tmp_path))
    async with hall(store, embedder, "She lives in Porto.") as made:
        yield made
    await store.close()


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> str | None:
    """The URL of a database of the test's own; none for SQLite."""
    return None if request.param == "sqlite" else request.getfixturevalue("postgres_url")


@pytest.fixture
async def both(database: str | None, tmp_path: Path, embedder: BundledEmbedder) -> AsyncIterator[Hall]:
    """The same on each database."""
    store = await (open_sqlite(put_database(tmp_path)) if database is None else open_postgres(database))
    async with hall(store, embedder, "She lives in Porto.") as made:
        yield made
    await store.close()
