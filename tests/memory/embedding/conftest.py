"""Stands on a database of the test's own."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.memory.embedding.stand import Stands


@pytest.fixture
async def stands(tmp_path: Path) -> AsyncIterator[Stands]:
    opened = await Stands.at(tmp_path)
    yield opened
    await opened.store.close()
