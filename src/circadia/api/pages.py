"""Pages of lists, bounded in rows and in bytes (LARGE-05)."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import orjson

Row = TypeVar("Row")

PAGE_BYTES: Final = 3_500_000
"""Bytes of the rows in a page; as the answer has them, with their keys, they are below 4 MB."""
FIRST_ROWS: Final = 30
"""Rows that are read before their length is known; the longest text has 100,000 characters."""


async def fetch_page(
    fetch: Callable[[Row | None, int], Awaitable[Sequence[Row]]], limit: int
) -> tuple[Sequence[Row], bool]:
    """Return up to `limit` rows, or fewer if they are long, and whether there may be more.

    `fetch` takes the last row so far and a number of rows.
    """
    rows: list[Row] = []
    number = min(limit, FIRST_ROWS)
    while True:
        more = await fetch(rows[-1] if rows else None, number)
        page = cut_page([*rows, *more])
        if len(page) < len(rows) + len(more):
            return page, True
        rows = list(page)
        if len(more) < number or len(rows) >= limit:
            return rows, len(more) >= number
        number = count_next(rows, limit)


def count_next(rows: Sequence[object], limit: int) -> int:
    """Return how many more rows the page may have, if they are as long as these."""
    size = sum(map(_measure, rows))
    return min(limit - len(rows), max((PAGE_BYTES - size) * len(rows) // max(size, 1), 1))


def cut_page(rows: Sequence[Row]) -> Sequence[Row]:
    """Return as many of the first rows, at least one, as a page may have."""
    size = 0
    for index, row in enumerate(rows):
        size += _measure(row)
        if index and size > PAGE_BYTES:
            return rows[:index]
    return rows


def _measure(row: object) -> int:
    return len(orjson.dumps(row, default=str, option=orjson.OPT_NON_STR_KEYS))
