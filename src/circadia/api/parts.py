"""What the REST API is made of, and how an endpoint gets at it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Protocol

from fastapi import APIRouter, Depends, Request
from fastapi.routing import APIRoute

from circadia.agents.identity import Identity
from circadia.agents.presence import Presence
from circadia.agents.registry import AgentRegistry
from circadia.agents.sessions import SessionService
from circadia.agents.sleep import AgentSleepService
from circadia.agents.threads import ThreadService
from circadia.answers.lookup import AnswerLookup
from circadia.clock import Clock
from circadia.gateway.answers.judging import JudgeLimits
from circadia.gateway.hold.gate import HoldView
from circadia.ids import AgentId
from circadia.memory.services import MemoryServices
from circadia.records.principal import Principal
from circadia.settings import Settings
from circadia.sleeptime.engine.services import SleeptimeService
from circadia.stores.base import Store
from circadia.stores.signals.base import Signals
from circadia.wake.services import WakeServices


class HoldRegistry(Protocol):
    """Knows which calls are held now; the gate does."""

    def list_holds(
        self, *, session: str | None = None, agent: str | None = None, limit: int = 1000
    ) -> tuple[Sequence[HoldView], int]:
        """Return what is held now, longest first and at most `limit`, and how much there is in all."""
        ...

    def count_held(self, agent_id: AgentId) -> int:
        """Return how many calls of the agent are held now."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class ApiParts:
    """What the endpoints call."""

    store: Store
    """Opens transactions."""
    clock: Clock
    """Time."""
    signals: Signals
    """Wakes those who follow events."""
    identity: Identity
    """Whose token it is."""
    registry: AgentRegistry
    """Makes, changes and deletes agents."""
    sessions: SessionService
    """Makes and closes sessions."""
    threads: ThreadService
    """Threads and messages."""
    sleep: AgentSleepService
    """The one writer of the sleep state."""
    presence: Presence
    """Says when the server stops."""
    settings: Settings
    """Limits and timing."""
    holds: HoldRegistry
    """What is held now."""
    wake: WakeServices
    """Inbox, wakes, pulses and schedules."""
    memory: MemoryServices
    """Banks, episodes, blocks, searches and contexts."""
    sleeptime: SleeptimeService
    """Passes over banks."""
    lookup: AnswerLookup
    """Finds ready answers."""
    judge: JudgeLimits | None = None
    """Decides whether similar questions ask the same; none if nobody does."""


def noun_router(noun: str, prefix: str = "/api/v1") -> APIRouter:
    """Return a router for the endpoints of one noun; an operation's id is its function's name."""

    def operation_id(route: APIRoute) -> str:
        return route.name

    return APIRouter(prefix=prefix, tags=[noun], generate_unique_id_function=operation_id)


async def _parts(request: Request) -> ApiParts:
    parts: ApiParts = request.app.state.parts
    return parts


async def _principal(request: Request) -> Principal:
    principal: Principal = request.state.principal
    return principal


Parts = Annotated[ApiParts, Depends(_parts)]
"""The parts, as an endpoint's parameter."""
Who = Annotated[Principal, Depends(_principal)]
"""Who asks, as an endpoint's parameter; the guard has found it before the endpoint runs."""
