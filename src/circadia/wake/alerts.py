"""Tells people what they should know: to the log, and to the webhook that the fleet names (WAKE-76).

It reads the record as others do, so that whatever writes an event needs to know nothing of alerts. The same cause is
told at most once an hour for each agent, by one of the servers on a database: the one that notes it first.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from circadia.clock import Clock
from circadia.errors import CircadiaError
from circadia.records.agent import Agent
from circadia.records.event import Event, EventType
from circadia.records.pulse import PulseStatus
from circadia.records.wake import Decision
from circadia.stores.base import Store, Tx
from circadia.wake.budgets import tally_of
from circadia.wake.chains import Place
from circadia.wake.guardrails import CIRCUIT_FAILURES
from circadia.wake.requests import AGEING_SECONDS

_logger = logging.getLogger(__name__)

EVERY_SECONDS: Final = 1.0
QUIET: Final = timedelta(hours=1)
"""The same cause is told once in so long."""
STREAK: Final = 3
"""Pulses that fail in a row."""
BUDGET_SHARE: Final = 0.8
"""Share of the day's wakes."""
BACKLOG: Final = timedelta(hours=1)
"""Age of a deferred wake."""
_BACKLOG_EVERY_SECONDS: Final = 60.0
_AT_ONCE: Final = 500
_TOLD: Final = (EventType.ALERT, EventType.SESSION_STALLED)
"""What is an alert as it stands."""
_READ: Final = (*_TOLD, EventType.PULSE, EventType.WAKE)
_FAILED: Final = {each.value for each in (PulseStatus.FAILED, PulseStatus.TIMED_OUT, PulseStatus.INTERRUPTED)}

Post = Callable[[Mapping[str, object]], Coroutine[Any, Any, None]]
"""Sends an alert on; raises what it likes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Alert:
    """One thing that people should know."""

    cause: str
    """`dead_letter`, `circuit_open`, `failure_streak`, `budget`, `stalled_session`, `backlog`, `routine_skipped`."""
    session: str | None
    """Where."""
    agent: str | None
    """Of whom."""
    at: datetime
    """When it happened."""
    detail: Mapping[str, object]
    """What else is known."""

    @property
    def subject(self) -> str:
        """Of whom or what it is, as people read it; empty if of no session."""
        return ":".join(each for each in (self.session, self.agent) if each)


class Alerts:
    """Follows the record from the moment at which it starts."""

    def __init__(self, clock: Clock, store: Store, post: Post | None) -> None:
        self._clock = clock
        self._store = store
        self._post = post
        self._posting: set[asyncio.Task[None]] = set()
        self._backlog_at = 0.0
        self._read_up_to: int | None = None

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            try:
                await self.step()
            except CircadiaError as error:
                _logger.warning("alerts wait: %s", error)
            except Exception:  # the next look may pass, and nobody else does this work
                _logger.exception("an alert failed")
            await self._clock.sleep(EVERY_SECONDS)

    async def step(self) -> None:
        """Tell of what has happened since the last step."""
        async with self._store.read() as tx:
            if self._read_up_to is None:
                self._read_up_to = await tx.events.last_number()
            found = await tx.events.after(self._read_up_to, limit=_AT_ONCE, types=_READ)
            alerts = [alert for event in _first_of_each(found) if (alert := await self._alert(tx, event)) is not None]
            alerts += await self._old_backlog(tx)
            fresh = await self._fresh(tx, alerts)
        if fresh:
            async with self._store.write() as tx:
                fresh = await self._fresh(tx, fresh)  # another server may have been first
                for alert in fresh:
                    await tx.alerts.tell(alert.cause, alert.subject, self._clock.now())
        self._read_up_to = found[-1].number if found else self._read_up_to
        for alert in fresh:
            self._tell(alert)

    async def _fresh(self, tx: Tx, alerts: Sequence[Alert]) -> list[Alert]:
        """Return those that nobody has told within the hour, of the same cause and subject one."""
        told = {cause: await tx.alerts.told(cause) for cause in {each.cause for each in alerts}}
        now = self._clock.now()
        found: dict[tuple[str, str], Alert] = {}
        for each in alerts:
            last = told[each.cause].get(each.subject)
            if last is None or abs(now - last) >= QUIET:  # clocks of servers differ, and may be set
                found.setdefault((each.cause, each.subject), each)
        return list(found.values())

    async def settled(self) -> None:
        """Wait until all is posted, or has failed to be."""
        await asyncio.gather(*self._posting)

    async def _alert(self, tx: Tx, event: Event) -> Alert | None:
        """Return what the event is to people, if anything."""
        data = event.data
        if event.type is EventType.ALERT:
            return self._of(event, str(data.get("cause")), data)
        if event.type is EventType.SESSION_STALLED:
            return self._of(event, "stalled_session", data)
        agent = await self._agent(tx, event)
        if agent is None:
            return None
        if event.type is EventType.WAKE:
            return await self._nearly_spent(tx, event, agent)
        failures, _ = await tx.pulses.failures(agent.id, limit=2 * CIRCUIT_FAILURES)
        if failures < STREAK:
            return None
        cause = "circuit_open" if failures >= CIRCUIT_FAILURES else "failure_streak"
        return self._of(event, cause, {"failures": failures, "last": data.get("detail")})

    async def _nearly_spent(self, tx: Tx, event: Event, agent: Agent) -> Alert | None:
        limit = agent.coordination.wake_guardrails.max_wakes_per_day
        if not limit:
            return None
        spent = (await tally_of(tx, agent, self._clock.now(), place=Place())).wakes_today
        if spent < BUDGET_SHARE * limit:
            return None
        return self._of(event, "budget", {"wakes_today": spent, "max_wakes_per_day": limit})

    async def _old_backlog(self, tx: Tx) -> list[Alert]:
        """Return an alert for each agent whose oldest deferred wake waits too long; looked at each minute."""
        if self._clock.monotonic() < self._backlog_at:
            return []
        self._backlog_at = self._clock.monotonic() + _BACKLOG_EVERY_SECONDS
        now = self._clock.now()
        alerts: list[Alert] = []
        for each in await tx.wakes.due(now, ageing_seconds=AGEING_SECONDS, of=None):
            waiting = await tx.wakes.deferred(each.agent_id)
            agent = await tx.agents.get(each.agent_id)
            if agent is not None and waiting and now - waiting[0].at >= BACKLOG:
                detail = {"waiting": len(waiting), "oldest": waiting[0].id, "since": waiting[0].at.isoformat()}
                alerts.append(Alert(cause="backlog", session=agent.session, agent=agent.name, at=now, detail=detail))
        return alerts

    async def _agent(self, tx: Tx, event: Event) -> Agent | None:
        found = await tx.agents.ever_named(event.session or "", event.agent or "")
        return next((each for each in found if each.deleted_at is None), None)

    def _of(self, event: Event, cause: str, detail: Mapping[str, object]) -> Alert:
        return Alert(cause=cause, session=event.session, agent=event.agent, at=event.at, detail=detail)

    def _tell(self, alert: Alert) -> None:
        _logger.warning("alert %s of %s: %s", alert.cause, alert.subject or "the fleet", dict(alert.detail))
        if self._post is not None:
            posting = asyncio.create_task(self._posted(alert, self._post))
            self._posting.add(posting)
            posting.add_done_callback(self._posting.discard)

    async def _posted(self, alert: Alert, post: Post) -> None:
        body = {
            "type": "alert", "cause": alert.cause, "session": alert.session, "agent": alert.agent,
            "at": alert.at.isoformat(), "detail": dict(alert.detail),
        }  # fmt: skip
        try:
            await post(body)
        except Exception as error:  # noqa: BLE001 - whatever stands behind the URL
            _logger.warning("an alert could not be posted: %s", type(error).__name__)


def _first_of_each(events: Sequence[Event]) -> Collection[Event]:
    """Return those that may be alerts; one of an agent's pulses and one of its wakes, since the present is told."""
    found: dict[object, Event] = {}
    for event in events:
        told = event.type in _TOLD
        failed = event.type is EventType.PULSE and event.data.get("status") in _FAILED
        admitted = event.type is EventType.WAKE and event.data.get("decision") == Decision.ADMITTED.value
        if told or failed or admitted:
            found.setdefault(event.number if told else (event.type, event.session, event.agent), event)
    return found.values()
