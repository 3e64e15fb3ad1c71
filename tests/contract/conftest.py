"""Each test of a store runs on each database."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from circadia.stores.base import Store
from circadia.stores.postgres import open_postgres
from circadia.stores.sqlite import open_sqlite
from tests.fixtures.database_file import put_database


@dataclass(frozen=True, kw_only=True)
class Database:
    """An empty database of the test's own."""

    dialect: str
    """`sqlite` or `postgres`."""
    place: str
    """Path or URL."""

    async def open(self) -> Store:
        """Open one more store on it."""
        if self.dialect == "sqlite":
            return await open_sqlite(Path(self.place))
        return await open_postgres(self.place)


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    """A database that has the present schema."""
    place = str(put_database(tmp_path)) if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    return Database(dialect=request.param, place=place)


Opener = Callable[[], Awaitable[Store]]


@pytest.fixture
async def open_store(database: Database) -> AsyncIterator[Opener]:
    """Opens a store on the database; it is closed after the test."""
    opened: list[Store] = []

    async def opener() -> Store:
        opened.append(await database.open())
        return opened[-1]

    yield opener
    for store in opened:
        await store.close()


@pytest.fixture
async def store(open_store: Opener) -> Store:
    """A store with nothing in it."""
    return await open_store()
