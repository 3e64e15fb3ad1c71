"""Waits for messages: a wait takes what the agent has not handled, in order, from the one delivery table (GATE-71)."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from circadia.agents.presence import Presence
from circadia.clock import Clock
from circadia.errors import CircadiaError
from circadia.ids import AgentId, MessageId
from circadia.records.agent import Agent
from circadia.records.message import Delivery
from circadia.stores.base import Store
from circadia.stores.signals.base import Signals

_logger = logging.getLogger(__name__)

LEASE_SECONDS: Final = 60.0
"""How long a delivery may be on its way to a caller before it counts as lost; a confirmed answer takes milliseconds."""
LOOK_SECONDS: Final = 0.5
"""Time between two looks at what other processes have written to those who wait here."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageFilter:
    """What a wait is for."""

    mentioned: bool | None = None
    """Only messages that mention the agent."""
    sender: str | None = None
    """Only messages from this sender (reference)."""


class Waits:
    """Hands unread deliveries to waiting agents: leased while the answer is under way, handled once it went out."""

    def __init__(self, clock: Clock, store: Store, signals: Signals, presence: Presence) -> None:
        self._clock = clock
        self._store = store
        self._signals = signals
        self._presence = presence
        self._bells: defaultdict[str, set[asyncio.Future[None]]] = defaultdict(set)
        self._undoing: set[asyncio.Future[None]] = set()
        self._unread: Mapping[AgentId, tuple[int, int]] = {}
        """How many messages were unread at the last look, and the number of the newest, of those who waited."""
        for topic in ("delivery", "sleep", "agent_ended"):
            signals.listen(topic, self._ring)
        presence.add_stop_listener(self._ring_all)

    async def take(self, agent: Agent, wanted: MessageFilter, timeout_seconds: float) -> Sequence[Delivery]:
        """Return leased deliveries, as soon as there are any, or none after the time-out.

        While the agent is asleep the time-out's clock stands still and nothing is taken.

        Raises:
            TargetGone: the agent or its session is gone, or the server is stopping.
        """
        left = timeout_seconds
        cell = await self._presence.fetch_cell(agent.id)
        while True:
            await self._presence.wait_until_awake(cell, object())
            bell: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._bells[agent.id].add(bell)  # before the look, so that nothing arrives unheard in between
            try:
                found = await self._lease_or_undo(agent.id, wanted)
                if found and not cell.asleep:
                    return found
                if found:  # it fell asleep while the lease was written: they stay unread until it wakes
                    await asyncio.shield(self.release(agent.id, [each.message.id for each in found]))
                    continue
                if left <= 0:
                    return ()
                left -= await self._wait_for_bell(bell, left)
            finally:
                self._bells[agent.id].discard(bell)
                if not self._bells[agent.id]:
                    del self._bells[agent.id]

    async def run(self) -> None:
        """Look, until cancelled, at what was written in other processes, whose signals are not heard here."""
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            try:
                await self.check_unread()
            except CircadiaError as error:
                _logger.warning("those who wait hear other servers later: %s", error)
            except Exception:  # the next look may pass, and nobody else does this work
                _logger.exception("a look at what is unread failed")

    async def check_unread(self) -> None:
        """Wake those for whom something has become unread since the last look."""
        if not self._bells:
            self._unread = {}
            return
        async with self._store.begin_read() as tx:
            unread = await tx.deliveries.count_unread_by_agent([AgentId(key) for key in self._bells])
        for agent_id, found in unread.items():
            if self._unread.get(agent_id) != found:
                self._ring(agent_id, {})
        self._unread = unread

    async def confirm(self, agent_id: AgentId, messages: Sequence[MessageId]) -> None:
        """Mark as handled: the answer went out."""
        async with self._store.begin_write() as tx:
            await tx.deliveries.mark_handled(agent_id, messages, self._clock.now())

    async def release(self, agent_id: AgentId, messages: Sequence[MessageId]) -> None:
        """Make unread again: the caller was gone before the answer went out."""
        async with self._store.begin_write() as tx:
            await tx.deliveries.release(agent_id, messages)
            tx.after_commit(lambda: self._signals.publish("delivery", agent_id))

    async def sweep(self) -> None:
        """Make leases that ran out unread again."""
        async with self._store.begin_write() as tx:
            for agent_id in await tx.deliveries.release_expired(self._clock.now()):
                self._signal_delivery(tx.after_commit, agent_id)

    async def release_all(self) -> None:
        """Make unread again what was on its way to callers: at the start of who works alone, when they are gone."""
        async with self._store.begin_write() as tx:
            for agent_id in await tx.deliveries.end_waits():
                self._signal_delivery(tx.after_commit, agent_id)

    def _signal_delivery(self, after_commit: Callable[[Callable[[], None]], None], agent_id: AgentId) -> None:
        after_commit(lambda: self._signals.publish("delivery", agent_id))

    async def _lease_or_undo(self, agent_id: AgentId, wanted: MessageFilter) -> Sequence[Delivery]:
        """Lease; if the caller goes while the lease is written, make unread again what it got nothing of."""
        leasing = asyncio.ensure_future(self._lease(agent_id, wanted))
        try:
            return await asyncio.shield(leasing)
        except asyncio.CancelledError:
            undoing = asyncio.ensure_future(self._undo(agent_id, leasing))
            self._undoing.add(undoing)
            undoing.add_done_callback(self._undoing.discard)
            raise

    async def _undo(self, agent_id: AgentId, leasing: asyncio.Future[Sequence[Delivery]]) -> None:
        found = await leasing
        if found:
            await self.release(agent_id, [each.message.id for each in found])

    async def _lease(self, agent_id: AgentId, wanted: MessageFilter) -> Sequence[Delivery]:
        async with self._store.begin_read() as tx:
            unread = await tx.deliveries.find_unread(agent_id, mentioned=wanted.mentioned, sender=wanted.sender)
        if not unread:
            return ()
        now = self._clock.now()
        until = now + timedelta(seconds=LEASE_SECONDS)
        async with self._store.begin_write() as tx:
            leased = set(await tx.deliveries.lease(agent_id, [each.message.id for each in unread], until, now=now))
        return [each for each in unread if each.message.id in leased]

    async def _wait_for_bell(self, bell: asyncio.Future[None], seconds: float) -> float:
        """Wait for the bell, at most `seconds`; return how long it took."""
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
