"""Servers on a twentieth of the large world; `make test-slow` takes all of it."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from benchmarks.world import FIXTURE, FULL, WorldSize, fill_postgres, fill_sqlite
from tests.fixtures.server_process import CircadiaProcess


@pytest.fixture(params=["sqlite", "postgres"])
def world_url(request: pytest.FixtureRequest) -> str | None:
    """The URL of an empty database; none for SQLite."""
    return None if request.param == "sqlite" else request.getfixturevalue("empty_postgres_url")


@pytest.fixture(params=[FIXTURE, pytest.param(FULL, marks=pytest.mark.slow)], ids=["a twentieth", "all"])
def world_size(request: pytest.FixtureRequest) -> WorldSize:
    return request.param


@pytest.fixture
def world_settings() -> Mapping[str, object]:
    return {}


@pytest.fixture
async def world_server(
    world_url: str | None, world_size: WorldSize, world_settings: Mapping[str, object], tmp_path: Path
) -> AsyncIterator[CircadiaProcess]:
    """A server on each database, whose event loop is watched."""
    config = {**world_settings}
    if world_url is not None:
        await fill_postgres(world_url, world_size)
        config["server"] = {"database_url": world_url}
    else:
        (tmp_path / "data").mkdir(mode=0o700)
        await fill_sqlite(tmp_path / "data", world_size)
    async with CircadiaProcess(tmp_path, config) as server:
        server.end_warm_up()
        yield server
