"""What tests of the wake tier share."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from circadia.stores.sqlite import open_sqlite
from tests.wake.fleet import Fleet, fleet


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the present schema and nothing in it, to be copied: that is much faster than to make one."""
    path = tmp_path_factory.mktemp("empty") / "circadia.db"
    asyncio.run(_made(path))
    return path


async def _made(path: Path) -> None:
    await (await open_sqlite(path)).close()


@pytest.fixture
def folder(tmp_path: Path, empty_database: Path) -> Path:
    """A data folder with an empty database."""
    shutil.copy(empty_database, tmp_path / "circadia.db")
    return tmp_path


@pytest.fixture
async def team(folder: Path) -> AsyncIterator[Fleet]:
    """A fleet without agents."""
    async with fleet(folder) as made:
        yield made
