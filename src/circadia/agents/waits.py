"""Waits for messages: a wait takes unhandled messages in order, from the one delivery table (GATE-71)."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from circadia.agents.presence import Presence
from circadia.clock import Clock
from circadia.errors import TargetGone
from circadia.ids import AgentId, MessageId
from circadia.jobs.loops import run_guarded
from circadia.records.agent import Agent
from circadia.records.message import Delivery, Message
from circadia.stores.base import Store
from circadia.stores.signals.base import Signals

LEASE_SECONDS: Final = 60.0
"""How long a delivery may be in transit before it counts as lost; a confirmed answer takes milliseconds."""
READ_AT_ONCE: Final = 50
MATCHED_AT_ONCE: Final = 1_000
LOOK_SECONDS: Final = 0.5
"""Interval of looking for messages that other processes wrote."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageFilter:
    mentioned: bool | None = None
    sender: str | None = None
    matches: Callable[[Message], bool] | None = None
    """A condition that the database does not know; then one message at a time is taken."""

    @property
    def limit(self) -> int:
        return READ_AT_ONCE if self.matches is None else MATCHED_AT_ONCE


class Waits:
    """Delivers unread messages to waiting agents: leased while the answer is in transit, handled once it went out."""

    def __init__(self, clock: Clock, store: Store, signals: Signals, presence: Presence) -> None:
        self._clock = clock
        self._store = store
        self._signals = signals
        self._presence = presence
        self._bells: defaultdict[str, set[asyncio.Future[None]]] = defaultdict(set)
        self._undoing: set[asyncio.Future[None]] = set()
        self._unread: Mapping[AgentId, tuple[int, int]] = {}
        """Count of unread messages and newest number at the last look, for waiting agents."""
        for topic in ("delivery", "sleep", "agent_ended"):
            signals.listen(topic, self._ring)
        presence.add_stop_listener(self._ring_all)

    async def take(self, agent: Agent, wanted: MessageFilter, timeout_seconds: float) -> Sequence[Delivery]:
        """Return leased deliveries as soon as there are any, or none after the time-out.

        While the agent is asleep the time-out is paused and nothing is taken. A stop of the server ends the wait
        without deliveries.

        Raises:
            TargetGone: the agent or its session is gone.
        """
        left = timeout_seconds
        cell = await self._presence.fetch_cell(agent.id)
        while not self._presence.is_stopping:
            try:
                await self._presence.wait_until_awake(cell, object())
            except TargetGone:
                if self._presence.is_stopping:
                    break
                raise
            bell: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._bells[agent.id].add(bell)  # before the look, so that no arrival is missed
            try:
                deliveries = await self._lease_or_undo(agent.id, wanted)
                if deliveries and not cell.is_closed:
                    return deliveries
                if deliveries:  # it fell asleep during the lease: they stay unread until it wakes
                    await asyncio.shield(self.release(agent.id, [delivery.message.id for delivery in deliveries]))
                    continue
                if left <= 0:
                    return ()
                left -= await self._wait_for_bell(bell, left)
            finally:
                self._remove_bell(agent.id, bell)
        return ()

    async def look(
        self, agent_id: AgentId, find: Callable[[], Awaitable[Sequence[Delivery]]], timeout_seconds: float
    ) -> Sequence[Delivery]:
        """Return what `find` returns, once that is something or the time is over; it looks at each arrival.

        Nothing is leased, and a sleep of the agent changes nothing.
        """
        left = timeout_seconds
        while True:
            bell: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._bells[agent_id].add(bell)
            try:
                found = await find()
                if found or left <= 0 or self._presence.is_stopping:
                    return found
                left -= await self._wait_for_bell(bell, left)
            finally:
                self._remove_bell(agent_id, bell)

    async def run(self) -> None:
        """Look for messages of other processes until cancelled; their signals do not arrive here."""
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            await run_guarded("the check for unread messages", self.check_unread)

    async def check_unread(self) -> None:
        """Wake the waiters whose unread messages changed since the last look."""
        if not self._bells:
            self._unread = {}
            return
        async with self._store.begin_read() as tx:
            unread = await tx.deliveries.count_unread_by_agent([AgentId(key) for key in self._bells])
        for agent_id, state in unread.items():
            if self._unread.get(agent_id) != state:
                self._ring(agent_id, {})
        self._unread = unread

    async def confirm(self, agent_id: AgentId, messages: Sequence[MessageId]) -> None:
        """Mark messages as handled: the answer went out."""
        async with self._store.begin_write() as tx:
            await tx.deliveries.mark_handled(agent_id, messages, self._clock.now())

    async def release(self, agent_id: AgentId, messages: Sequence[MessageId]) -> None:
        """Make messages unread again: the caller left before the answer went out."""
        async with self._store.begin_write() as tx:
            await tx.deliveries.release(agent_id, messages)
            tx.after_commit(lambda: self._signals.publish("delivery", agent_id))

    async def sweep(self) -> None:
        """Make messages unread again whose lease ran out."""
        async with self._store.begin_write() as tx:
            for agent_id in await tx.deliveries.release_expired(self._clock.now()):
                self._signal_delivery(tx.after_commit, agent_id)

    async def release_all(self) -> None:
        """Make all messages in transit unread again; a process that is alone does so at its start."""
        async with self._store.begin_write() as tx:
            for agent_id in await tx.deliveries.end_waits():
                self._signal_delivery(tx.after_commit, agent_id)

    def _remove_bell(self, agent_id: AgentId, bell: asyncio.Future[None]) -> None:
        self._bells[agent_id].discard(bell)
        if not self._bells[agent_id]:
            del self._bells[agent_id]

    def _signal_delivery(self, after_commit: Callable[[Callable[[], None]], None], agent_id: AgentId) -> None:
        after_commit(lambda: self._signals.publish("delivery", agent_id))

    async def _lease_or_undo(self, agent_id: AgentId, wanted: MessageFilter) -> Sequence[Delivery]:
        """Lease deliveries; release them if the caller leaves meanwhile."""
        leasing = asyncio.ensure_future(self._lease(agent_id, wanted))
        try:
            return await asyncio.shield(leasing)
        except asyncio.CancelledError:
            undoing = asyncio.ensure_future(self._undo(agent_id, leasing))
            self._undoing.add(undoing)
            undoing.add_done_callback(self._undoing.discard)
            raise

    async def _undo(self, agent_id: AgentId, leasing: asyncio.Future[Sequence[Delivery]]) -> None:
        deliveries = await leasing
        if deliveries:
            await self.release(agent_id, [delivery.message.id for delivery in deliveries])

    async def _lease(self, agent_id: AgentId, wanted: MessageFilter) -> Sequence[Delivery]:
        async with self._store.begin_read() as tx:
            unread = await tx.deliveries.find_unread(
                agent_id, mentioned=wanted.mentioned, sender=wanted.sender, limit=wanted.limit
            )
        if (matches := wanted.matches) is not None:
            unread = [delivery for delivery in unread if matches(delivery.message)][:1]
        if not unread:
            return ()
        now = self._clock.now()
        until = now + timedelta(seconds=LEASE_SECONDS)
        async with self._store.begin_write() as tx:
            leased = set(
                await tx.deliveries.lease(agent_id, [delivery.message.id for delivery in unread], until, now=now)
            )
        return [delivery for delivery in unread if delivery.message.id in leased]

    async def _wait_for_bell(self, bell: asyncio.Future[None], seconds: float) -> float:
        began = self._clock.monotonic()
        timer = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait((bell, timer), return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
        return self._clock.monotonic() - began

    def _ring_all(self) -> None:
        for key in tuple(self._bells):
            self._ring(key, {})

    def _ring(self, key: str, _: Mapping[str, object]) -> None:
        for bell in self._bells.get(key, ()):
            if not bell.done():
                bell.set_result(None)
