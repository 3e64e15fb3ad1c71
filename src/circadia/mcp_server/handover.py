"""Deliveries to one caller: handled once its answer is sent, unread again if the caller is gone (GATE-47)."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from circadia.agents.waits import Waits
from circadia.ids import AgentId, MessageId


class Handover:
    """The leased deliveries of a request, from the tool that takes them to the end of the answer."""

    def __init__(self, waits: Waits) -> None:
        self._waits = waits
        self._given: list[tuple[AgentId, Sequence[MessageId]]] = []
        self._over = False
        self._late: set[asyncio.Task[None]] = set()

    def give(self, agent_id: AgentId, messages: Sequence[MessageId]) -> None:
        """Take over leased deliveries, or release them if the request has already ended.

        It does not wait: the tool may be under cancellation, which would interrupt a wait.
        """
        if not messages:
            return
        if self._over:
            self.free(agent_id, messages)
        else:
            self._given.append((agent_id, messages))

    def free(self, agent_id: AgentId, messages: Sequence[MessageId]) -> None:
        """Make deliveries unread again, in the background."""
        self._spawn(self._waits.release(agent_id, messages))

    async def settle(self, sent: bool) -> None:
        """Confirm or release the deliveries; called once, after the answer is sent or the caller is gone."""
        self._over = True
        deliveries, self._given = self._given, []
        for agent_id, messages in deliveries:
            if sent:
                await self._waits.confirm(agent_id, messages)
            else:
                await self._waits.release(agent_id, messages)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._late.add(task)
        task.add_done_callback(self._late.discard)
