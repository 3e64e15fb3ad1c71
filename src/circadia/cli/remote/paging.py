"""Lists that the server returns page by page."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

import typer

from circadia.schemas.view import View

Page = TypeVar("Page", bound=View)

Limit = Annotated[int, typer.Option("--limit", min=1, max=100_000, metavar="N", help="Maximum number of rows.")]
PAGE = 1000
ALL = 10_000_000
"""Limit of a list that is needed whole."""


async def gather_pages(
    page: Callable[[str | None, int], Awaitable[Page]], *, key: str, limit: int, cursor: str = "before"
) -> Page:
    """Return the last page's answer with up to `limit` entries of all pages under `key`.

    `page` takes a cursor and a maximum number of entries.
    """
    entries: list[Any] = []
    place: str | None = None
    while True:
        answer = await page(place, min(PAGE, limit - len(entries)))
        entries += getattr(answer, key)
        place = getattr(answer, cursor)
        if place is None or len(entries) >= limit:
            return answer.model_copy(update={key: entries})
