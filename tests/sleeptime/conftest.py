"""What tests of the sleep tier share."""

from collections.abc import AsyncIterator

import pytest

from circadia.memory.embedding.bundled import BundledEmbedder
from circadia.stores.base import Store
from tests.sleeptime.answers_stand import Hall, hall
from tests.sleeptime.stand import Stand


@pytest.fixture(scope="package")
def embedder() -> BundledEmbedder:
    """The words that come with the package, loaded once."""
    return BundledEmbedder()


@pytest.fixture
async def stand(sqlite_store: Store) -> AsyncIterator[Stand]:
    """A bank of Ann's; no pass over it outlives the test, or it would wait for the store forever."""
    made = await Stand.made(sqlite_store)
    yield made
    for worker in made.workers:
        await worker.drain()


@pytest.fixture
async def one(sqlite_store: Store, embedder: BundledEmbedder) -> AsyncIterator[Hall]:
    """A hall, whose provider says that Ann lives in Porto."""
    async with hall(sqlite_store, embedder, "She lives in Porto.") as made:
        yield made


@pytest.fixture
async def both(either_store: Store, embedder: BundledEmbedder) -> AsyncIterator[Hall]:
    """The same on each database."""
    async with hall(either_store, embedder, "She lives in Porto.") as made:
        yield made
