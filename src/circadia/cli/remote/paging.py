"""Lists that the server hands out page by page."""

from collections.abc import Awaitable, Callable
from typing import Any

PAGE = 1000
"""Entries that the server hands out at a time."""


async def gather_pages(
    page: Callable[[str | None, int], Awaitable[Any]], *, key: str, limit: int, cursor: str = "before"
) -> dict[str, Any]:
    """Return the answer with so many entries of `key`, from as many pages as that takes.

    `page` is asked for the page at a cursor, with so many entries at most.
    """
    found: list[Any] = []
    place: str | None = None
    while True:
        answer = await page(place, min(PAGE, limit - len(found)))
        found += answer[key]
        place = answer[cursor]
        if place is None or len(found) >= limit:
            return {**answer, key: found}
