"""The service that most tests of REST ask, and the client of its operator."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from circadia.client.calls import Client
from tests.api.service import ADMIN, Service, serving


@pytest.fixture
async def service(tmp_path: Path) -> AsyncGenerator[Service]:
    async with serving(tmp_path) as made:
        yield made


@pytest.fixture
async def client(service: Service) -> AsyncGenerator[Client]:
    async with Client(service.url, ADMIN) as made:
        yield made


@pytest.fixture
async def team(service: Service) -> str:
    """Make a bank in which two things were said; return its name."""
    await service.ok("POST", "/banks", {"name": "team"})
    for text in ("Ann lives in Porto.", "Ann has moved to Porto."):
        await service.ok("POST", "/banks/team/episodes", {"text": text, "speaker": "ann"})
    return "team"
