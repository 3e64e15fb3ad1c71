"""The service that most tests of REST ask."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.api.service import Service, serving


@pytest.fixture
async def service(tmp_path: Path) -> AsyncGenerator[Service]:
    async with serving(tmp_path) as made:
        yield made
