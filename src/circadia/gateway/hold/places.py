"""Places for held calls: how many may be held at once, for each agent and in all.

Several gateways share the places through the database (CLU-04): each writes how many it holds for an agent, one block
at a time, and counts those of the others before. Places that are given back reach the others within a second; those of
a dead gateway return with its lease.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from circadia.clock import Clock, wait_for_event
from circadia.errors import CircadiaError, LimitReached
from circadia.ids import AgentId, MemberId
from circadia.jobs.guarded_step import run_guarded
from circadia.records.agent import Agent
from circadia.settings import LimitsSettings
from circadia.stores.base import Store

GIVE_BACK_SECONDS: Final = 1.0
AT_ONCE: Final = 1_000
"""Calls that take their places in one block."""
ALL_AGENTS: Final = AgentId("")
"""Stands for all agents together."""
_RETRY_SECONDS: Final = 30.0


class HoldPlaces(Protocol):
    async def take(self, agent: Agent) -> None:
        """Take a place for a call of this agent.

        Raises:
            LimitReached: there is none. StorageUnavailable: nobody knows whether there is.
        """
        ...

    def give_back(self, agent_id: AgentId) -> None: ...


class LocalHoldPlaces:
    """The places of a server that is alone."""

    def __init__(self, limits: LimitsSettings) -> None:
        self._limits = limits
        self._held: Counter[AgentId] = Counter()

    async def take(self, agent: Agent) -> None:
        require_place(self._limits, agent, self._held)
        self._held.update((agent.id, ALL_AGENTS))

    def give_back(self, agent_id: AgentId) -> None:
        for key in (agent_id, ALL_AGENTS):
            self._held[key] -= 1
            if not self._held[key]:
                del self._held[key]


class _Request(NamedTuple):
    agent: Agent
    answer: "asyncio.Future[None]"


class SharedHoldPlaces:
    """The places of a gateway that shares them with others. Calls that come at the same time take theirs together."""

    def __init__(self, clock: Clock, store: Store, member_id: MemberId, limits: LimitsSettings) -> None:
        self._clock = clock
        self._store = store
        self._member_id = member_id
        self._limits = limits
        self._held: Counter[AgentId] = Counter()
        self._requests: list[_Request] = []
        self._given_back: set[AgentId] = set()
        """Agents whose stored number is too high."""
        self._bell = asyncio.Event()

    async def take(self, agent: Agent) -> None:
        request = _Request(agent, asyncio.get_running_loop().create_future())
        self._requests.append(request)
        self._bell.set()
        try:
            await request.answer
        except asyncio.CancelledError:
            if request.answer.done() and not request.answer.cancelled() and request.answer.exception() is None:
                self.give_back(agent.id)
            raise

    def give_back(self, agent_id: AgentId) -> None:
        self._held.subtract((agent_id, ALL_AGENTS))
        self._given_back.update((agent_id, ALL_AGENTS))

    async def run(self) -> None:
        """Take and give back places until cancelled."""
        while True:
            await wait_for_event(self._clock, self._bell, GIVE_BACK_SECONDS)
            self._bell.clear()
            while self._requests or self._given_back:
                if not await run_guarded("the places of held calls", self._exchange):
                    break

    async def _exchange(self) -> None:
        requests, self._requests = self._requests[:AT_ONCE], self._requests[AT_ONCE:]
        given_back, self._given_back = self._given_back, set()
        try:
            granted, refused = await self._write_counts(requests, given_back)
        except BaseException as error:
            self._given_back |= given_back
            for request in requests:
                if not request.answer.done() and isinstance(error, CircadiaError):
                    request.answer.set_exception(error)
                else:
                    request.answer.cancel()
            raise
        for request in granted:
            self._held.update((request.agent.id, ALL_AGENTS))
            if request.answer.done():  # its caller is gone
                self.give_back(request.agent.id)
            else:
                request.answer.set_result(None)
        for request, error in refused:
            if not request.answer.done():
                request.answer.set_exception(error)

    async def _write_counts(
        self, requests: list[_Request], given_back: set[AgentId]
    ) -> tuple[list[_Request], list[tuple[_Request, LimitReached]]]:
        """Return the granted requests, and the others with their errors."""
        granted: list[_Request] = []
        refused: list[tuple[_Request, LimitReached]] = []
        asking = {request.agent.id for request in requests}
        async with self._store.begin_write() as tx:
            others: Mapping[AgentId, int] = {}
            if requests:
                others = await tx.hold_places.sum_of_others(
                    self._member_id, {*asking, ALL_AGENTS}, self._clock.now()
                )  # fmt: skip
            held = Counter({key: self._held[key] for key in {*asking, *given_back, ALL_AGENTS}})
            for request in requests:
                try:
                    require_place(self._limits, request.agent, held, others)
                except LimitReached as error:
                    refused.append((request, error))
                else:
                    held.update((request.agent.id, ALL_AGENTS))
                    granted.append(request)
            changed = {request.agent.id for request in granted} | given_back
            if changed:
                await tx.hold_places.put(self._member_id, {key: held[key] for key in {*changed, ALL_AGENTS}})
        return granted, refused


def require_place(
    limits: LimitsSettings, agent: Agent, held: Mapping[AgentId, int], others: Mapping[AgentId, int] | None = None
) -> None:
    """Raise LimitReached if this many held calls, and those of other gateways, leave none for the agent."""

    def count(key: AgentId) -> int:
        return held.get(key, 0) + (others or {}).get(key, 0)

    if count(ALL_AGENTS) >= limits.max_holds:
        raise LimitReached(f"{limits.max_holds} calls are held already; try later", retry_after_seconds=_RETRY_SECONDS)
    if count(agent.id) >= limits.max_holds_per_agent:
        raise LimitReached(
            f"{agent.reference!r} has {limits.max_holds_per_agent} held calls already; wake it or wait",
            retry_after_seconds=_RETRY_SECONDS,
        )
