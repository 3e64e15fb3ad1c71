"""The words and weights that come with the package, loaded once."""

import asyncio

import pytest

from circadia.memory.answers.likeness import Likeness, fitted
from circadia.memory.embedding.bundled import BundledEmbedder, WordTable


@pytest.fixture(scope="session")
def words() -> WordTable:
    return asyncio.run(BundledEmbedder().word_vectors())


@pytest.fixture(scope="session")
def likeness() -> Likeness:
    return fitted()
