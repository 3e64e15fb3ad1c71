"""A server for the commands, and an environment in which they find it."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from circadia.testing.upstream import MockUpstream
from tests.fixtures.server_process import ADMIN_TOKEN, CircadiaProcess


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def upstream() -> AsyncGenerator[MockUpstream]:
    """A model provider."""
    async with MockUpstream() as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory, upstream: MockUpstream) -> AsyncGenerator[CircadiaProcess]:
    """A server in front of the provider, shared by the tests of a module; each makes sessions of its own."""
    talker = {"kind": "subprocess", "command": ["sh", "-c", "echo first; echo second; exit 3"]}
    upstreams = {"openai": {"base_url": upstream.base_url}}
    config: dict[str, Any] = {"upstreams": upstreams, "launchers": {"talker": talker}, "agents": {"filed": {}}}
    async with CircadiaProcess(tmp_path_factory.mktemp("server"), config) as running:
        yield running


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home and working folder, and none of the variables that commands read."""
    for name in ("CIRCADIA_URL", "CIRCADIA_TOKEN", "CIRCADIA_ADMIN_TOKEN", "CIRCADIA_DATA", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def operator(home: Path, monkeypatch: pytest.MonkeyPatch, server: CircadiaProcess) -> CircadiaProcess:
    """The server, where the environment leads commands to it as the operator."""
    monkeypatch.setenv("CIRCADIA_URL", server.url)
    monkeypatch.setenv("CIRCADIA_ADMIN_TOKEN", ADMIN_TOKEN)
    return server
