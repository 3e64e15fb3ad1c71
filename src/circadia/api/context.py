"""What endpoints get: the services, the caller, and pages of lists, bounded in rows and bytes (LARGE-05)."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final, Protocol, TypeVar

import orjson
from fastapi import APIRouter, Depends, Query, Request
from fastapi.routing import APIRoute

from circadia.agents.approvals import ApprovalService
from circadia.agents.identity import AccessTokenService, Identity
from circadia.agents.presence import Presence
from circadia.agents.registry import AgentRegistry
from circadia.agents.sessions import SessionService
from circadia.agents.sign_in import SignIn
from circadia.agents.sleep_confirmation import SleepConfirmer
from circadia.agents.threads import ThreadService
from circadia.agents.waits import Waits
from circadia.answers.lookup import AnswerLookup
from circadia.clock import Clock
from circadia.gateway.answers.judging import JudgeLimits
from circadia.gateway.model_call.hold import HoldView
from circadia.gateway.model_call.resume import ResumableAnswers
from circadia.ids import AgentId, HoldId, MemberId
from circadia.jobs.event_sequencer import EventSequencer
from circadia.memory.services import MemoryServices
from circadia.records.agent import MAX_COUNT
from circadia.records.principal import Principal
from circadia.settings import Settings
from circadia.sleeptime.engine.services import SleeptimeService
from circadia.sleeptime.markdown.memory_folders import MemoryFolders
from circadia.stores.base import Store
from circadia.stores.signals.base import Signals
from circadia.wake.services import WakeServices


class HoldRegistry(Protocol):
    """Lists and drops the calls held now; the gate implements it."""

    def list_holds(
        self, *, session: str | None = None, agent: str | None = None, limit: int = 1000
    ) -> tuple[Sequence[HoldView], int]:
        """Return the held calls, longest first and up to `limit`, and their total number."""
        ...

    def count_held(self, agent_id: AgentId) -> int: ...

    def find_hold(self, hold: HoldId) -> HoldView | None: ...

    def drop(self, hold: HoldId, *, by: str) -> HoldView:
        """End a held call; return it as it was. Raises NotFound."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class ApiContext:
    """The services that endpoints call."""

    store: Store
    clock: Clock
    signals: Signals
    identity: Identity
    sign_in: SignIn
    registry: AgentRegistry
    sessions: SessionService
    threads: ThreadService
    tokens: AccessTokenService
    confirmer: SleepConfirmer
    waits: Waits
    presence: Presence
    """Knows when the server is stopping."""
    settings: Settings
    holds: HoldRegistry
    wake: WakeServices
    memory: MemoryServices
    sleeptime: SleeptimeService
    approvals: ApprovalService
    resumable: ResumableAnswers
    """Streamed answers that this server keeps for callers whose connection broke."""
    folders: MemoryFolders
    lookup: AnswerLookup
    judge: JudgeLimits | None = None
    """Decides whether similar questions ask the same; None without a judge."""
    member_id: MemberId | None = None
    """This process in the cluster; None on SQLite."""
    sequencer: EventSequencer | None = None
    """Numbers events; None if the database does so in the order of its commits."""


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
