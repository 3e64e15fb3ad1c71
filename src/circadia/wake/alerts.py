"""Alerts for operators: to the log, and to the fleet's webhook (WAKE-76).

The notifier reads the event record, so writers of events know nothing of alerts. Each cause alerts at most once an hour
per agent, from the server that claims it first. If that server dies before it posts, another one posts a minute later
under the same id.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from circadia.agents.approvals import CAUSE as APPROVAL_CAUSE
from circadia.agents.chains import ChainPosition
from circadia.clock import Clock, Every
from circadia.errors import CircadiaError
from circadia.ids import AlertId, IdSource, PulseId
from circadia.jobs.loops import DueWatch, run_guarded
from circadia.records.agent import Agent
from circadia.records.alert import AlertRecord
from circadia.records.approval import ApprovalStatus
from circadia.records.event import AlertChange, Event, EventType
from circadia.records.overview import BUDGET_SHARE, NO_LAUNCHER, PendingAlertPost
from circadia.records.pulse import Pulse, PulseStatus
from circadia.records.wake import Decision
from circadia.stores.base import Store, Tx
from circadia.stores.event_log import EventLog
from circadia.stores.locks import ALERTS_KEY
from circadia.wake.admission.budgets import fetch_tally
from circadia.wake.admission.guardrails import CIRCUIT_FAILURES
from circadia.wake.admission.requests import AGEING_SECONDS

_logger = logging.getLogger(__name__)

EVERY_SECONDS: Final = 1.0
QUIET: Final = timedelta(hours=1)
"""Minimum time between two alerts of the same cause."""
STREAK: Final = 3
BACKLOG: Final = timedelta(hours=1)
"""Age of a deferred wake."""
POSTED_WITHIN: Final = timedelta(minutes=1)
"""A claim whose post has not ended by then is abandoned; no post takes longer."""
_SLOW_CHECK_SECONDS: Final = 60.0
_AT_ONCE: Final = 500
_REPORTED: Final = (EventType.ALERT, EventType.SESSION_STALLED, EventType.APPROVAL)
_READ: Final = (*_REPORTED, EventType.PULSE, EventType.WAKE)
_FAILED: Final = {status.value for status in (PulseStatus.FAILED, PulseStatus.TIMED_OUT, PulseStatus.INTERRUPTED)}

AlertPoster = Callable[[Mapping[str, object]], Coroutine[Any, Any, None]]
"""Posts an alert; may raise anything."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Alert:
    cause: str
    """`dead_letter`, `circuit_open`, `failure_streak`, `budget`, `stalled_session`, `backlog`, `routine_skipped`,
    `no_launcher`, `approval`."""
    session: str | None
    agent: str | None
    at: datetime
    detail: Mapping[str, object]

    @property
    def subject(self) -> str:
        """Return `session:agent` as far as known; empty for the fleet."""
        return ":".join(name for name in (self.session, self.agent) if name)


class AlertNotifier:
    """Follows the event record from its start on."""

    def __init__(
        self,
        clock: Clock,
        ids: IdSource,
        store: Store,
        events: EventLog,
        post: AlertPoster | None,
        *,
        fleet_wakes_per_day: int | None = None,
        due: DueWatch | None = None,
    ) -> None:
        self._clock = clock
        self._ids = ids
        self._store = store
        self._events = events
        self._post = post
        self._fleet_wakes_per_day = fleet_wakes_per_day
        self._due = due or DueWatch(clock, store)
        self._last_event = -1
        self._posting: set[asyncio.Task[None]] = set()
        self._slow_checks = Every(clock, _SLOW_CHECK_SECONDS)
        self._unclaimed: Mapping[PulseId, Pulse] = {}
        """Pulses that nobody had claimed at the last look."""
        self._read_up_to: int | None = None

    async def run(self) -> None:
        try:
            while True:
                await run_guarded("the alert loop", self.step)
                await self._clock.sleep(EVERY_SECONDS)
        finally:  # the next start posts what is under way
            for posting in self._posting:
                posting.cancel()

    async def step(self) -> None:
        last_event = (await self._due.look()).last_event
        if last_event == self._last_event and not self._slow_checks.is_due:
            return
        async with self._store.begin_read() as tx:
            if self._read_up_to is None:
                self._read_up_to = await tx.events.last_number()
            events = await tx.events.find_after(self._read_up_to, limit=_AT_ONCE, types=_READ)
            alerts = [
                alert
                for event in _first_of_each(events)
                if (alert := await self._alert_from_event(tx, event)) is not None
            ]
            left: Sequence[PendingAlertPost] = ()
            if self._slow_checks.take():
                alerts += await self._backlog_alerts(tx)
                alerts += await self._launcher_alerts(tx)
                left = await self._fetch_abandoned(tx)
            new_alerts = await self._drop_repeated(tx, alerts)
        new_alerts, to_post = await self._claim_alerts(new_alerts) if new_alerts or left else ((), ())
        self._read_up_to = events[-1].number if events else self._read_up_to
        self._last_event = last_event if len(events) < _AT_ONCE else -1
        for alert in new_alerts:
            _logger.warning("alert %s of %s: %s", alert.cause, alert.subject or "the fleet", dict(alert.detail))
        if self._post is not None:
            for post in to_post:
                posting = asyncio.create_task(self._post_once(post, self._post))
                self._posting.add(posting)
                posting.add_done_callback(self._posting.discard)

    async def _claim_alerts(self, fresh: Sequence[Alert]) -> tuple[Sequence[Alert], Sequence[PendingAlertPost]]:
        async with self._store.begin_write(ALERTS_KEY) as tx:
            now = self._clock.now()
            to_post = [replace(post, told_at=now) for post in await self._fetch_abandoned(tx)]
            await self._store_claims(tx, to_post)
            fresh = await self._drop_repeated(tx, fresh)
            ids = [AlertId(self._ids.new("alr")) for _ in fresh]
            new = [_build_pending_post(alert, now, alert_id) for alert, alert_id in zip(fresh, ids, strict=True)]
            await self._store_claims(tx, new)
            for alert, alert_id in zip(fresh, ids, strict=True):
                await self._store_in_history(tx, alert, alert_id)
        return fresh, (*to_post, *new)

    async def _store_in_history(self, tx: Tx, alert: Alert, alert_id: AlertId) -> None:
        raised = AlertRecord(
            id=alert_id, cause=alert.cause, session=alert.session, agent=alert.agent, at=alert.at, detail=alert.detail
        )
        await tx.alert_history.add(raised)
        data = AlertChange(alert=alert_id, cause=alert.cause)
        await self._events.record(tx, EventType.ALERT_RAISED, data, session=alert.session, agent=alert.agent)

    async def _store_claims(self, tx: Tx, posts: Sequence[PendingAlertPost]) -> None:
        for post in posts:
            await tx.alerts.record_alert(
                post.cause, post.subject, post.told_at, None if self._post is None else post.body
            )

    async def _fetch_abandoned(self, tx: Tx) -> list[PendingAlertPost]:
        """Return the posts that a dead server left, if this one posts at all."""
        now = self._clock.now()
        unposted = await tx.alerts.find_unposted() if self._post is not None else ()
        return [post for post in unposted if abs(now - post.told_at) >= POSTED_WITHIN]

    async def _drop_repeated(self, tx: Tx, alerts: Sequence[Alert]) -> list[Alert]:
        """Return the alerts that nobody raised within the hour, one per cause and subject."""
        alert_times = {cause: await tx.alerts.find_alert_times(cause) for cause in {alert.cause for alert in alerts}}
        now = self._clock.now()
        first_alerts: dict[tuple[str, str], Alert] = {}
        for alert in alerts:
            last = alert_times[alert.cause].get(alert.subject)
            if last is None or abs(now - last) >= QUIET:  # clocks of servers differ, and may be set
                first_alerts.setdefault((alert.cause, alert.subject), alert)
        return list(first_alerts.values())

    async def wait_until_posted(self) -> None:
        await asyncio.gather(*self._posting)

    async def _alert_from_event(self, tx: Tx, event: Event) -> Alert | None:
        data = event.data
        if event.type is EventType.ALERT:
            detail = {key: value for key, value in data.items() if key != "cause"}
            return self._build_alert(event, str(data.get("cause")), detail)
        if event.type is EventType.APPROVAL:
            is_pending = data.get("status") == ApprovalStatus.PENDING.value
            return self._build_alert(event, APPROVAL_CAUSE, data) if is_pending else None
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
        limits, max_fleet_wakes = agent.coordination.wake_guardrails, self._fleet_wakes_per_day or 0
        tally = await fetch_tally(tx, agent, self._clock.now(), place=ChainPosition(), fleet_wakes_most=max_fleet_wakes)
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
        now = self._clock.now()
        alerts: list[Alert] = []
        for due_agent in await tx.wakes.find_due_agents(now, ageing_seconds=AGEING_SECONDS, of=None):
            waiting = await tx.wakes.find_deferred(due_agent.agent_id)
            agent = await tx.agents.get(due_agent.agent_id)
            if agent is not None and waiting and now - waiting[0].at >= BACKLOG:
                detail = {"waiting": len(waiting), "oldest": waiting[0].id, "since": waiting[0].at.isoformat()}
                alerts.append(Alert(cause="backlog", session=agent.session, agent=agent.name, at=now, detail=detail))
        return alerts

    async def _launcher_alerts(self, tx: Tx) -> list[Alert]:
        """Return an alert for each agent whose pulse nobody has claimed over two looks: no live worker can start it."""
        now = self._clock.now()
        before, pulses = self._unclaimed, await tx.pulses.find_unclaimed(now, before=now, limit=_AT_ONCE)
        self._unclaimed = {pulse.id: pulse for pulse in pulses}
        alerts: list[Alert] = []
        for pulse in pulses:
            agent = await tx.agents.get(pulse.agent_id) if before.get(pulse.id) == pulse else None
            if agent is not None:
                detail = {"launcher": pulse.launcher, "pulse": pulse.id, "since": pulse.created_at.isoformat()}
                alerts.append(Alert(cause=NO_LAUNCHER, session=agent.session, agent=agent.name, at=now, detail=detail))
        return alerts

    async def _find_agent(self, tx: Tx, event: Event) -> Agent | None:
        agents = await tx.agents.find_by_past_name(event.session or "", event.agent or "")
        return next((agent for agent in agents if agent.deleted_at is None), None)

    def _build_alert(self, event: Event, cause: str, detail: Mapping[str, object]) -> Alert:
        return Alert(cause=cause, session=event.session, agent=event.agent, at=event.at, detail=detail)

    async def _post_once(self, each: PendingAlertPost, post: AlertPoster) -> None:
        """Post once, whatever the outcome, and record that."""
        try:
            await post(each.body)
        except Exception as error:  # noqa: BLE001 - whatever stands behind the URL
            _logger.warning("an alert could not be posted: %s", type(error).__name__)
        try:
            async with self._store.begin_write() as tx:
                await tx.alerts.mark_posted(each.cause, each.subject, each.told_at)
        except CircadiaError as error:
            _logger.warning("an alert will be posted again, as its post could not be recorded: %s", error)


def _build_pending_post(alert: Alert, now: datetime, key: str) -> PendingAlertPost:
    body = {
        "type": "alert", "id": key, "cause": alert.cause, "session": alert.session, "agent": alert.agent,
        "at": alert.at.isoformat(), "detail": dict(alert.detail),
    }  # fmt: skip
    return PendingAlertPost(cause=alert.cause, subject=alert.subject, told_at=now, body=body)


def _first_of_each(events: Sequence[Event]) -> Collection[Event]:
    """Return possible alerts: one pulse and one wake event per agent, since only its present state is reported."""
    first_events: dict[object, Event] = {}
    for event in events:
        is_alert = event.type in _REPORTED
        failed = event.type is EventType.PULSE and event.data.get("status") in _FAILED
        admitted = event.type is EventType.WAKE and event.data.get("decision") == Decision.ADMITTED.value
        if is_alert or failed or admitted:
            first_events.setdefault(event.number if is_alert else (event.type, event.session, event.agent), event)
    return first_events.values()
