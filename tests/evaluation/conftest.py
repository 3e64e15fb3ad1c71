"""Word vectors, loaded once."""

import asyncio

import pytest

from circadia.memory.answers.meaning import WordVectors
from circadia.memory.embedding.bundled import BundledEmbedder


@pytest.fixture(scope="session")
def words() -> WordVectors:
    """Those that a server has."""
    return asyncio.run(BundledEmbedder().word_vectors())
