"""What tests of the wake tier share."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fixtures.database_file import put_database
from tests.wake.fleet import Fleet, fleet


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder with an empty database."""
    put_database(tmp_path)
    return tmp_path


@pytest.fixture
async def team(folder: Path) -> AsyncIterator[Fleet]:
    """A fleet without agents."""
    async with fleet(folder) as made:
        yield made
