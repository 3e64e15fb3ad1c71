"""Word vectors, loaded once."""

import asyncio

import pytest

from circadia.memory.embedding.bundled import BundledEmbedder
from circadia.memory.search.vectors import TextVectors


@pytest.fixture(scope="session")
def words() -> TextVectors:
    """Those that a server has."""
    return asyncio.run(BundledEmbedder().word_vectors())
