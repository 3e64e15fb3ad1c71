"""A folder in memory, where a flush to the disk takes no time, for tests that publish hundreds of times."""

from collections.abc import Generator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

SHARED_MEMORY = Path("/dev/shm")


@pytest.fixture
def quick_path() -> Generator[Path]:
    """Yield an empty folder in memory, where the system has that."""
    with TemporaryDirectory(dir=SHARED_MEMORY if SHARED_MEMORY.is_dir() else None) as folder:
        yield Path(folder)
