"""Word vectors, loaded once."""

import asyncio

import pytest

from circadia.answers.index import TextVectors
from circadia.memory.embedding.bundled import BundledEmbedder


@pytest.fixture(scope="session")
def words() -> TextVectors:
    """Those that a server has."""
    return asyncio.run(BundledEmbedder().word_vectors())
