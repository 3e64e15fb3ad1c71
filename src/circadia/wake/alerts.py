"""Tells people what they should know: to the log, and to the webhook that the fleet names (WAKE-76).

It reads the record as others do, so that whatever writes an event needs to know nothing of alerts. The same cause is
told at most once an hour for each agent, by one of the servers on a database: the one that notes it first. What that
one has not posted, since it died, is posted by whoever finds it a minute later, under the same id.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from circadia.clock import Clock
from circadia.errors import CircadiaError
from circadia.ids import IdSource
from circadia.records.agent import Agent
from circadia.records.alert import BUDGET_SHARE, PendingAlertPost
from circadia.records.event import Event, EventType
from circadia.records.pulse import PulseStatus
from circadia.records.wake import Decision
from circadia.stores.base import Store, Tx
from circadia.wake.admission.budgets import fetch_tally
from circadia.wake.admission.chains import ChainPosition
from circadia.wake.admission.guardrails import CIRCUIT_FAILURES
from circadia.wake.admission.requests import AGEING_SECONDS

_logger = logging.getLogger(__name__)

EVERY_SECONDS: Final = 1.0
QUIET: Final = timedelta(hours=1)
"""The same cause is told once in so long."""
STREAK: Final = 3
"""Pulses that fail in a row."""
BACKLOG: Final = timedelta(hours=1)
"""Age of a deferred wake."""
POSTED_WITHIN: Final = timedelta(minutes=1)
"""A post that is not known to have ended by then is nobody's any more; longer than one takes."""
_SELDOM_SECONDS: Final = 60.0
"""Old backlogs, and posts that died with a server, are looked for so often."""
_AT_ONCE: Final = 500
_TOLD: Final = (EventType.ALERT, EventType.SESSION_STALLED)
"""What is an alert as it stands."""
_READ: Final = (*_TOLD, EventType.PULSE, EventType.WAKE)
_FAILED: Final = {each.value for each in (PulseStatus.FAILED, PulseStatus.TIMED_OUT, PulseStatus.INTERRUPTED)}

AlertPoster = Callable[[Mapping[str, object]], Coroutine[Any, Any, None]]
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


class AlertNotifier:
    """Follows the record from the moment at which it starts."""

    def __init__(
        self,
        clock: Clock,
        ids: IdSource,
        store: Store,
        post: AlertPoster | None,
        *,
        fleet_wakes_per_day: int | None = None,
    ) -> None:
        self._clock = clock
        self._ids = ids
        self._store = store
        self._post = post
        self._fleet_wakes_per_day = fleet_wakes_per_day
        self._posting: set[asyncio.Task[None]] = set()
        self._seldom_at = 0.0
        self._read_up_to: int | None = None

    async def run(self) -> None:
        """Follow until cancelled."""
        try:
            while True:
                try:
                    await self.step()
                except CircadiaError as error:
                    _logger.warning("alerts wait: %s", error)
                except Exception:  # the next look may pass, and nobody else does this work
                    _logger.exception("an alert failed")
                await self._clock.sleep(EVERY_SECONDS)
        finally:  # what is under way is posted again after the next start
            for each in self._posting:
                each.cancel()

    async def step(self) -> None:
        """Tell of what has happened since the last step."""
        async with self._store.begin_read() as tx:
            if self._read_up_to is None:
                self._read_up_to = await tx.events.last_number()
            found = await tx.events.find_after(self._read_up_to, limit=_AT_ONCE, types=_READ)
            alerts = [
                alert
                for event in _first_of_each(found)
                if (alert := await self._alert_from_event(tx, event)) is not None
            ]
            left: Sequence[PendingAlertPost] = ()
            if self._clock.monotonic() >= self._seldom_at:
                self._seldom_at = self._clock.monotonic() + _SELDOM_SECONDS
                alerts += await self._backlog_alerts(tx)
                left = await self._fetch_abandoned(tx)
            fresh = await self._drop_repeated(tx, alerts)
        fresh, to_post = await self._claim_alerts(fresh) if fresh or left else ((), ())
        self._read_up_to = found[-1].number if found else self._read_up_to
        for alert in fresh:
            _logger.warning("alert %s of %s: %s", alert.cause, alert.subject or "the fleet", dict(alert.detail))
        if self._post is not None:
            for each in to_post:
                posting = asyncio.create_task(self._post_once(each, self._post))
                self._posting.add(posting)
                posting.add_done_callback(self._posting.discard)

    async def _claim_alerts(self, fresh: Sequence[Alert]) -> tuple[Sequence[Alert], Sequence[PendingAlertPost]]:
        """Note that this server tells them, of which another may have been first; return those, and what it posts."""
        async with self._store.begin_write() as tx:
            now = self._clock.now()
            to_post = [replace(each, told_at=now) for each in await self._fetch_abandoned(tx)]
            await self._store_claims(tx, to_post)
            fresh = await self._drop_repeated(tx, fresh)
            new = [_build_pending_post(alert, now, self._ids.new("alr")) for alert in fresh]
            await self._store_claims(tx, new)
        return fresh, (*to_post, *new)

    async def _store_claims(self, tx: Tx, told: Sequence[PendingAlertPost]) -> None:
        for each in told:
            await tx.alerts.record_alert(
                each.cause, each.subject, each.told_at, None if self._post is None else each.body
            )

    async def _fetch_abandoned(self, tx: Tx) -> list[PendingAlertPost]:
        """Return what a server has not posted that died meanwhile, if this one posts at all."""
        now = self._clock.now()
        found = await tx.alerts.find_unposted() if self._post is not None else ()
        return [each for each in found if abs(now - each.told_at) >= POSTED_WITHIN]  # as for those that are told

    async def _drop_repeated(self, tx: Tx, alerts: Sequence[Alert]) -> list[Alert]:
        """Return those that nobody has told within the hour, of the same cause and subject one."""
        told = {cause: await tx.alerts.find_alert_times(cause) for cause in {each.cause for each in alerts}}
        now = self._clock.now()
        found: dict[tuple[str, str], Alert] = {}
        for each in alerts:
            last = told[each.cause].get(each.subject)
            if last is None or abs(now - last) >= QUIET:  # clocks of servers differ, and may be set
                found.setdefault((each.cause, each.subject), each)
        return list(found.values())

    async def wait_until_posted(self) -> None:
        """Wait until all is posted, or has failed to be."""
        await asyncio.gather(*self._posting)

    async def _alert_from_event(self, tx: Tx, event: Event) -> Alert | None:
        """Return what the event is to people, if anything."""
        data = event.data
        if event.type is EventType.ALERT:
            detail = {key: value for key, value in data.items() if key != "cause"}
            return self._build_alert(event, str(data.get("cause")), detail)
        if event.type is EventType.SESSION_STALLED:
            return self._build_alert(event, "stalled_session", data)
        agent = await self._find_agent(tx, event)
        if agent is None:
            return None
        if event.type is EventType.WAKE:
            return await self._budget_alert(tx, event, agent)
        failures, _ = await tx.pulses.count_failures(agent.id, limit=2 * CIRCUIT_FAILURES)
        if failures < STREAK:
            return None
        cause = "circuit_open" if failures >= CIRCUIT_FAILURES else "failure_streak"
        return self._build_alert(event, cause, {"failures": failures, "last": data.get("detail")})

    async def _budget_alert(self, tx: Tx, event: Event, agent: Agent) -> Alert | None:
        tally, limits = (
            await fetch_tally(tx, agent, self._clock.now(), place=ChainPosition()),
            agent.coordination.wake_guardrails,
        )
        budgets = (
            ("wakes_today", tally.wakes_today, "max_wakes_per_day", limits.max_wakes_per_day),
            (
                "minutes_today",
                tally.run_seconds_today / 60,
                "max_daily_session_minutes",
                limits.max_daily_session_minutes,
            ),
            ("fleet_wakes_today", tally.fleet_wakes_today, "fleet.max_wakes_per_day", self._fleet_wakes_per_day),
        )
        detail = {
            key: value
            for used, spent, setting, limit in budgets
            if limit and spent >= BUDGET_SHARE * limit
            for key, value in ((used, spent), (setting, limit))
        }
        return self._build_alert(event, "budget", detail) if detail else None

    async def _backlog_alerts(self, tx: Tx) -> list[Alert]:
        """Return an alert for each agent whose oldest deferred wake waits too long."""
        now = self._clock.now()
        alerts: list[Alert] = []
        for each in await tx.wakes.find_due_agents(now, ageing_seconds=AGEING_SECONDS, of=None):
            waiting = await tx.wakes.find_deferred(each.agent_id)
            agent = await tx.agents.get(each.agent_id)
            if agent is not None and waiting and now - waiting[0].at >= BACKLOG:
                detail = {"waiting": len(waiting), "oldest": waiting[0].id, "since": waiting[0].at.isoformat()}
                alerts.append(Alert(cause="backlog", session=agent.session, agent=agent.name, at=now, detail=detail))
        return alerts

    async def _find_agent(self, tx: Tx, event: Event) -> Agent | None:
        found = await tx.agents.find_by_past_name(event.session or "", event.agent or "")
        return next((each for each in found if each.deleted_at is None), None)

    def _build_alert(self, event: Event, cause: str, detail: Mapping[str, object]) -> Alert:
        return Alert(cause=cause, session=event.session, agent=event.agent, at=event.at, detail=detail)

    async def _post_once(self, each: PendingAlertPost, post: AlertPoster) -> None:
        """Post it once, whatever comes of it, and note that."""
        try:
            await post(each.body)
        except Exception as error:  # noqa: BLE001 - whatever stands behind the URL
            _logger.warning("an alert could not be posted: %s", type(error).__name__)
        try:
            async with self._store.begin_write() as tx:
                await tx.alerts.mark_posted(each.cause, each.subject, each.told_at)
        except CircadiaError as error:
            _logger.warning("an alert will be posted again, since it could not be noted that it is: %s", error)


def _build_pending_post(alert: Alert, now: datetime, key: str) -> PendingAlertPost:
    body = {
        "type": "alert", "id": key, "cause": alert.cause, "session": alert.session, "agent": alert.agent,
        "at": alert.at.isoformat(), "detail": dict(alert.detail),
    }  # fmt: skip
    return PendingAlertPost(cause=alert.cause, subject=alert.subject, told_at=now, body=body)


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
