"""What tests share that kill a program over its database."""

from pathlib import Path

import pytest


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of the test's own: a path or a URL."""
    return str(tmp_path / "circadia.db") if request.param == "sqlite" else request.getfixturevalue("postgres_url")
