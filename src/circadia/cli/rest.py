"""How a command puts questions to the REST API that are no methods of the client."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from circadia.cli.connection import target
from circadia.cli.reference import parted
from circadia.client.connection import Connection
from circadia.clock import SystemClock

TIMEOUT_SECONDS = 30.0
PAGE = 1000

T = TypeVar("T")
Query = Mapping[str, str | Sequence[str] | None]


def ask_rest(url: str, token: str | None, data: Path | None, question: Callable[[Connection], Awaitable[T]]) -> T:
    """Connect, put the question and return the answer.

    Raises:
        CircadiaError: there is no server or no token, or the server refuses.
    """
    where = target(url, token, data, os.environ)

    async def asking() -> T:
        async with _open(where.url, where.token) as rest:
            return await question(rest)

    return asyncio.run(asking())


@asynccontextmanager
async def _open(url: str, token: str):
    rest = Connection(url, token, timeout=TIMEOUT_SECONDS, clock=SystemClock())
    rest.open()
    try:
        yield rest
    finally:
        await rest.close()


async def pages(
    rest: Connection, *path: str, key: str, query: Query, limit: int, cursor: str = "before"
) -> dict[str, Any]:
    """Return the answer with so many entries of `key`, gathered from as many pages as that takes."""
    found: list[Any] = []
    place: str | None = None
    while True:
        wanted = {**query, cursor: place, "limit": str(min(PAGE, limit - len(found)))}
        answer = await rest.call("GET", *path, query=wanted)
        found += answer[key]
        place = answer[cursor]
        if place is None or len(found) >= limit:
            return {**answer, key: found}


def whole(reference: str, session: str | None) -> str:
    """Return `session:name` for an agent as a person names it."""
    return ":".join(parted(reference, session))
