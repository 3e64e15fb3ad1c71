"""A database in a folder without a server, for measurements of memory and passes: a part of `wiring`."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from circadia.server.folder import DATABASE_FILE
from circadia.stores.base import Store
from circadia.stores.signals.base import Signals
from circadia.stores.signals.local import LocalSignals
from circadia.stores.sqlite import open_sqlite


@asynccontextmanager
async def open_scratch_store(folder: Path) -> AsyncGenerator[tuple[Store, Signals]]:
    """Yield a new database in the folder and local signals. Raises StartError if it cannot be opened."""
    store = await open_sqlite(folder / DATABASE_FILE)
    try:
        yield store, LocalSignals()
    finally:
        await store.close()
