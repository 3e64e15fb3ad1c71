"""The words and weights that come with the package, loaded once."""

import asyncio

import pytest

from circadia.memory.answers import shelf
from circadia.memory.answers.likeness import Likeness, fitted
from circadia.memory.answers.lookup import ReadyAnswers
from circadia.memory.embedding.bundled import BundledEmbedder, WordTable


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a question wait until all is loaded, however busy the machine is."""
    monkeypatch.setattr(shelf, "QUICK_SECONDS", 60.0)


@pytest.fixture(scope="session")
def words() -> WordTable:
    return asyncio.run(BundledEmbedder().word_vectors())


@pytest.fixture(scope="session")
def likeness() -> Likeness:
    return fitted()


@pytest.fixture
def ready(words: WordTable, likeness: Likeness) -> ReadyAnswers:
    return ReadyAnswers(words, likeness)
