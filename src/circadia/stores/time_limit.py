"""A time limit for a short step at the database, far below the drivers' own."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from circadia.errors import StorageUnavailable

STEP_SECONDS: Final = 3.0
"""Maximum wait of a call for each step that it needs; a healthy database takes milliseconds."""


@asynccontextmanager
async def limit_wait(seconds: float = STEP_SECONDS) -> AsyncGenerator[None]:
    """Raise StorageUnavailable if the step takes longer; what it wrote may still be committed."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        message = f"the database did not answer within {seconds:g} s; send it again"
        raise StorageUnavailable(message, retry_after_seconds=5) from error
