"""Places for held calls: how many may be held at once, and how many woken ones are prepared at the same time.

Several gateways share the places through the database (CLU-04): each writes how many it holds for an agent, one block
at a time, and counts those of the others before. Places that are given back reach the others within a second; those of
a dead gateway return with its lease.
"""

import asyncio
import resource
import sys
from collections import Counter, deque
from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from circadia.clock import Clock, wait_for_event
from circadia.errors import CircadiaError, LimitReached, StorageUnavailable
from circadia.ids import AgentId, MemberId
from circadia.jobs.loops import run_guarded
from circadia.records.agent import Agent
from circadia.settings import LimitsSettings
from circadia.stores.base import Store
from circadia.stores.time_limit import limit_wait

GIVE_BACK_SECONDS: Final = 1.0
AT_ONCE: Final = 1_000
"""Calls that take their places in one block."""
ALL_AGENTS: Final = AgentId("")
"""Stands for all agents together."""
FILES_RESERVE: Final = 64
"""Open files for the database, logs, probes and operators."""
_RETRY_SECONDS: Final = 30.0


def file_limit() -> int:
    """Return how many files this process may open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def holds_within(files: int) -> int:
    """Return how many calls fit under a limit of open files: one is the caller's connection, one the provider's."""
    return max(0, (files - FILES_RESERVE) // 2)


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

    def __init__(self, limits: LimitsSettings, files: int) -> None:
        self._limits = limits
        self._files = files
        self._held: Counter[AgentId] = Counter()

    async def take(self, agent: Agent) -> None:
        require_file(self._files, self._held)
        require_place(self._limits, agent, self._held)
        _add_calls(self._held, agent.id, 1)

    def give_back(self, agent_id: AgentId) -> None:
        _add_calls(self._held, agent_id, -1)


class _Request(NamedTuple):
    agent: Agent
    answer: "asyncio.Future[None]"


class SharedHoldPlaces:
    """The places of a gateway that shares them with others. Calls that come at the same time take theirs together."""

    def __init__(self, clock: Clock, store: Store, member_id: MemberId, limits: LimitsSettings, files: int) -> None:
        self._files = files
        self._clock = clock
        self._store = store
        self._member_id = member_id
        self._limits = limits
        self._held: Counter[AgentId] = Counter()
        self._requests: list[_Request] = []
        self._given_back: set[AgentId] = set()
        """Agents whose stored number may be too high."""
        self._bell = asyncio.Event()

    async def take(self, agent: Agent) -> None:
        request = _Request(agent, asyncio.get_running_loop().create_future())
        self._requests.append(request)
        self._bell.set()
        try:
            async with limit_wait():
                await request.answer
        except BaseException:  # its caller may be gone, or its time over, in the moment in which it is granted
            if request.answer.done() and not request.answer.cancelled() and request.answer.exception() is None:
                self.give_back(agent.id)
            raise

    def give_back(self, agent_id: AgentId) -> None:
        _add_calls(self._held, agent_id, -1)
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
            self._given_back |= {*given_back, *(request.agent.id for request in requests)}  # it may be written
            failure = error if isinstance(error, CircadiaError) else StorageUnavailable("the server is stopping")
            for request in requests:
                if not request.answer.done():
                    request.answer.set_exception(failure)
            raise
        for request in granted:
            _add_calls(self._held, request.agent.id, 1)
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
                    require_file(self._files, held)
                    require_place(self._limits, request.agent, held, others)
                except LimitReached as error:
                    refused.append((request, error))
                else:
                    _add_calls(held, request.agent.id, 1)
                    granted.append(request)
            changed = {request.agent.id for request in granted} | given_back
            if changed:
                await tx.hold_places.put(self._member_id, {key: held[key] for key in {*changed, ALL_AGENTS}})
        return granted, refused


def _add_calls(held: Counter[AgentId], agent_id: AgentId, number: int) -> None:
    """Add held calls, or with a negative number remove them; agents without any are left out."""
    for key in (agent_id, ALL_AGENTS):
        held[key] += number
        if not held[key]:
            del held[key]


def require_file(files: int, held: Mapping[AgentId, int]) -> None:
    """Raise LimitReached if this process has no open file left for one more held call."""
    max_calls = holds_within(files)
    if held.get(ALL_AGENTS, 0) >= max_calls:
        raise LimitReached(
            f"{max_calls} calls are held already, as many as the {files} open files of this server allow; try later",
            retry_after_seconds=_RETRY_SECONDS,
        )


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


PREPARED_AT_ONCE: Final = 16
"""Calls prepared at the same time. Each takes about half a millisecond of the event loop; fewer make the
crowd slower, more make other callers wait.
"""
SLOT_SECONDS: Final = 0.1
"""Maximum time in a slot: a call that waits for a connection or a model does not need the event loop."""


class PacePermit:
    __slots__ = ("_pace", "_timer")

    def __init__(self, pace: "Pace") -> None:
        self._pace: Pace | None = pace
        self._timer = asyncio.get_running_loop().call_later(SLOT_SECONDS, self.release)

    def release(self) -> None:
        """Pass the slot to the next in the queue; calling it again has no effect."""
        self._timer.cancel()
        pace, self._pace = self._pace, None
        if pace is not None:
            pace.next()


class Pace:
    """A queue for slots, in order of arrival.

    Without it, waking ten thousand held calls makes each turn of the loop ten thousand steps long, and a control API
    answer, which takes some ten turns, comes after the last of them.
    """

    def __init__(self) -> None:
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._free_slots = PREPARED_AT_ONCE

    async def slot(self) -> PacePermit:
        if self._free_slots:
            self._free_slots -= 1
            return PacePermit(self)
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():  # granted and cancelled at the same time: pass it on
                self.next()
            raise
        return PacePermit(self)

    def next(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():  # else its caller was cancelled
                waiter.set_result(None)
                return
        self._free_slots += 1
