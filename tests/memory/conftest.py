"""A memory on each database, with an embedder that tests steer."""

import pytest

from circadia.stores.base import Store
from tests.memory.world import World


@pytest.fixture
async def world(either_store: Store) -> World:
    """A memory with one bank, `ann`."""
    return await World.made(either_store)
