"""The vectors that come with the package, loaded once."""

import asyncio

import pytest

from circadia.answers import lookup
from circadia.answers.index import AnswerIndex
from circadia.memory.embedding.bundled import BundledEmbedder, WordTable
from circadia.stores.base import Store
from tests.memory.world import World


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a question wait until all is loaded, however busy the machine is."""
    monkeypatch.setattr(lookup, "CALL_WAIT_SECONDS", 60.0)


@pytest.fixture
async def world(either_store: Store) -> World:
    """A memory with one bank, `ann`, on each database."""
    return await World.made(either_store)


@pytest.fixture(scope="session")
def words() -> WordTable:
    return asyncio.run(BundledEmbedder().word_vectors())


@pytest.fixture
def index(words: WordTable) -> AnswerIndex:
    return AnswerIndex(words)
