"""Messages on their way to one caller: handled once its answer went out, unread again if it was gone (GATE-47)."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from circadia.agents.waits import Waits
from circadia.ids import AgentId, MessageId


class Handover:
    """The leased deliveries of one request, from the tool that took them to the door that knows how it ended."""

    def __init__(self, waits: Waits) -> None:
        self._waits = waits
        self._given: list[tuple[AgentId, Sequence[MessageId]]] = []
        self._over = False
        self._late: set[asyncio.Task[None]] = set()

    def give(self, agent_id: AgentId, messages: Sequence[MessageId]) -> None:
        """Take over leased deliveries; at once back to unread if the request has ended already.

        It does not wait: the tool may be under cancellation, where each wait would end it.
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
        """Confirm or release what was given; called once, when the answer went out or the caller was gone."""
        self._over = True
        given, self._given = self._given, []
        for agent_id, messages in given:
            if sent:
                await self._waits.confirm(agent_id, messages)
            else:
                await self._waits.release(agent_id, messages)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._late.add(task)
        task.add_done_callback(self._late.discard)
