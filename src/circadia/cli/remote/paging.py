"""Lists that the server returns page by page."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import typer

Limit = Annotated[int, typer.Option("--limit", min=1, max=100_000, metavar="N", help="Maximum number of rows.")]
PAGE = 1000


async def gather_pages(
    page: Callable[[str | None, int], Awaitable[Any]], *, key: str, limit: int, cursor: str = "before"
) -> dict[str, Any]:
    """Return the last page's answer with up to `limit` entries of all pages under `key`.

    `page` takes a cursor and a maximum number of entries.
    """
    entries: list[Any] = []
    place: str | None = None
    while True:
        answer = await page(place, min(PAGE, limit - len(entries)))
        entries += answer[key]
        place = answer[cursor]
        if place is None or len(entries) >= limit:
            return {**answer, key: entries}
