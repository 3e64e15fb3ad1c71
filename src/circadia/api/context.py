"""What endpoints get: the services, the caller, and pages of lists, bounded in rows and bytes (LARGE-05)."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Annotated, Final, TypeVar

import orjson
from fastapi import APIRouter, Depends, Query, Request
from fastapi.routing import APIRoute

from circadia.api.services import ApiContext
from circadia.records.agent import MAX_COUNT
from circadia.records.principal import Principal


def noun_router(noun: str, prefix: str = "/api/v1") -> APIRouter:
    """Return a router for the endpoints of one noun; an operation id is the name of its function."""

    def operation_id(route: APIRoute) -> str:
        return route.name

    return APIRouter(prefix=prefix, tags=[noun], generate_unique_id_function=operation_id)


async def _context(request: Request) -> ApiContext:
    """Return the services; what a person reads, which may be much, has connections of its own (LARGE-05)."""
    principal: Principal = request.state.principal
    context: ApiContext = request.app.state.context
    if request.method == "GET" and principal.agent is None:
        return replace(context, store=context.store.for_operators)
    return context


async def _principal(request: Request) -> Principal:
    principal: Principal = request.state.principal
    return principal


Context = Annotated[ApiContext, Depends(_context)]
Who = Annotated[Principal, Depends(_principal)]
"""The caller, authenticated by the guard before the endpoint runs."""


Row = TypeVar("Row")

Limit = Annotated[int, Query(ge=1, le=1000, description="Maximum number of rows.")]
LongLimit = Annotated[int, Query(ge=1, le=10_000, description="Maximum number of rows.")]
NextPage = Annotated[str | None, Query(description="`next` of the previous page.")]
AfterNumber = Annotated[int, Query(ge=0, le=MAX_COUNT, description="Number of the last row on the previous page.")]
SessionFilter = Annotated[str | None, Query(description="Only of this session.")]
AgentFilter = Annotated[str | None, Query(description="Only of agents with this name.")]

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
