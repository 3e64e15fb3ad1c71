"""Client methods for alarms, routines of an agent's own, and named events."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from circadia.client.connection import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, ApiConnection
from circadia.errors import RetryLater, Unreachable
from circadia.schemas.alarms import AlarmList, AlarmView, EventWaitList, EventWaitOutcome, EventWaitView, NamedEventView
from circadia.schemas.events import EventOutcome
from circadia.schemas.inbox import AckResult

WAIT_SECONDS: Final = 20.0
"""Length of one call of a wait; the next one goes on with it."""


class AlarmCalls:
    """One method per endpoint. Agents are given as `name` or `session:name`."""

    _http: ApiConnection

    async def emit_event(
        self, name: str, data: Mapping[str, Any] | None = None, *, key: str | None = None
    ) -> EventOutcome:
        """Report a named event to the agents that wait for it; `key` makes repeats safe."""
        return await self._http.fetch(EventOutcome, "POST", "events", name, body={"data": data or {}, "key": key})

    async def wait_for_event(
        self,
        agent: str,
        name: str,
        filter: Mapping[str, Any] | None = None,
        *,
        timeout_seconds: float | None = None,
        since_seconds: float | None = None,
    ) -> NamedEventView:
        """Wait for a named event whose data contains the filter, acknowledge it, and return it.

        One of the last `since_seconds` (60) that the agent has not had counts too.
        The wait survives a restart of the server and a lost connection. Raises TimeoutError.
        """
        pause = FIRST_PAUSE_SECONDS
        async with asyncio.timeout(timeout_seconds):
            while True:
                with suppress(Unreachable, RetryLater):
                    if (event := await self._wait_once(agent, name, filter or {}, since_seconds)) is not None:
                        return event
                    pause = FIRST_PAUSE_SECONDS
                    continue
                await self._http.pause(pause)
                pause = min(LONGEST_PAUSE_SECONDS, 2 * pause)

    async def list_event_waits(self, agent: str) -> list[EventWaitView]:
        """Return an agent's waits for named events."""
        return (await self._http.fetch(EventWaitList, "GET", "agents", agent, "event-waits")).waits

    async def cancel_event_wait(self, agent: str, wait: str) -> None:
        """Cancel a wait for a named event."""
        await self._http.call("DELETE", "agents", agent, "event-waits", wait)

    async def list_alarms(self, *, page: str | None = None, limit: int = 100) -> AlarmList:
        """Return what agents set for themselves; `page` is `next` of the page before."""
        return await self._http.fetch(AlarmList, "GET", "alarms", query={"page": page, "limit": limit})

    async def list_own_alarms(self, agent: str) -> list[AlarmView]:
        """Return an agent's alarms and routines of its own."""
        return (await self._http.fetch(AlarmList, "GET", "agents", agent, "alarms")).alarms

    async def set_own_routine(
        self,
        agent: str,
        name: str,
        *,
        every_seconds: int | None = None,
        cron: str | None = None,
        instructions: str = "",
    ) -> AlarmView:
        """Set a routine of the agent's own, within the limits of its policy."""
        body = {"every_seconds": every_seconds, "cron": cron, "instructions": instructions}
        return await self._http.fetch(AlarmView, "PUT", "agents", agent, "alarms", name, body=body)

    async def cancel_alarm(self, agent: str, name: str) -> AlarmView:
        """Cancel an alarm, or delete a routine of the agent's own."""
        return await self._http.fetch(AlarmView, "DELETE", "agents", agent, "alarms", name)

    async def _wait_once(
        self, agent: str, name: str, filter: Mapping[str, Any], since_seconds: float | None
    ) -> NamedEventView | None:
        body: dict[str, Any] = {"name": name, "filter": filter, "timeout_seconds": WAIT_SECONDS}
        if since_seconds is not None:
            body["since_seconds"] = since_seconds
        outcome = await self._http.fetch(EventWaitOutcome, "POST", "agents", agent, "event-waits", body=body)
        if outcome.event is not None:
            await self._http.fetch(AckResult, "POST", "agents", agent, "inbox", outcome.event.message, "ack")
        return outcome.event
