"""Client methods for the wake tier: inbox, requests, pulses, schedules, coordination."""

from collections.abc import Mapping, Sequence
from typing import Any

from circadia.client.connection import ApiConnection, Time
from circadia.records.wake import Decision
from circadia.schemas.agents import CoordinationView
from circadia.schemas.inbox import AckResult, InboxPage, RequeueResult, SentPage, SnoozeResult, UnhandledPage
from circadia.schemas.schedule import ScheduleView
from circadia.schemas.wakes import (
    AgentReasonView,
    Chain,
    MessageWakeList,
    PulseList,
    PulseView,
    SendOutcome,
    WakeCircleList,
    WakeCircleView,
    WakeDetail,
    WakeList,
    WakeMatrix,
    WakeOutcome,
    WakePairCounts,
    WakeStatsView,
    WakeView,
)


class WakeCalls:
    """One method per endpoint of the wake tier. Agents are given as `name` or `session:name`."""

    _http: ApiConnection

    async def send_direct(
        self,
        to: str,
        content: str,
        *,
        priority: str = "normal",
        type: str = "info",
        wake: str | None = None,
        reply_to: str | None = None,
        key: str | None = None,
    ) -> SendOutcome:
        """Put a message into an inbox; a `wake` reason or a high priority requests a wake.

        `key` makes repeats safe.
        """
        body = {
            "to": to, "content": content, "priority": priority, "type": type, "wake": wake, "reply_to": reply_to,
            "key": key,
        }  # fmt: skip
        return await self._http.fetch(SendOutcome, "POST", "messages", body=body)

    async def wake_agent(
        self,
        to: str,
        reason: str,
        message: str | None = None,
        *,
        override: str | None = None,
        dry_run: bool = False,
        sender: str | None = None,
        key: str | None = None,
    ) -> WakeOutcome:
        """Request a wake; `dry_run` only returns the expected decision, for the operator also for a `sender`."""
        body = {
            "to": to, "reason": reason, "message": message, "override": override, "dry_run": dry_run, "from": sender,
            "key": key,
        }  # fmt: skip
        return await self._http.fetch(WakeOutcome, "POST", "wakes", body=body)

    async def list_wakes(
        self,
        *,
        agent: str | None = None,
        sender: str | None = None,
        decision: str | None = None,
        since: Time | None = None,
        until: Time | None = None,
        before: str | None = None,
        limit: int = 100,
        trace: bool = False,
    ) -> WakeList:
        """Return wake requests, newest first; `before` is for the next page.

        With `trace` they include the guardrail checks.
        """
        query = {
            "agent": agent, "sender": sender, "decision": decision, "since": since, "until": until, "before": before,
            "limit": limit, "trace": trace,
        }  # fmt: skip
        return await self._http.fetch(WakeList, "GET", "wakes", query=query)

    async def show_wake(self, wake: str) -> WakeDetail:
        """Return a request with its guardrail checks."""
        return await self._http.fetch(WakeDetail, "GET", "wakes", wake)

    async def explain_agent(self, agent: str) -> AgentReasonView:
        """Return why an agent sleeps or is awake, and what wakes it."""
        return await self._http.fetch(AgentReasonView, "GET", "agents", agent, "why")

    async def explain_message_wakes(self, message: str) -> MessageWakeList:
        """Return why a message woke its recipients, or did not."""
        return await self._http.fetch(MessageWakeList, "GET", "messages", message, "wakes")

    async def list_wake_circles(self, *, agent: str | None = None) -> list[WakeCircleView]:
        """Return agents that wake each other today, directly or over others."""
        answer = await self._http.fetch(WakeCircleList, "GET", "wake-circles", query={"agent": agent})
        return answer.circles

    async def wait_for_wake(self, wake: str, *, timeout_seconds: float | None = None) -> WakeDetail:
        """Wait until a deferred request has its decision. Raises TimeoutError."""
        return await self._http.read_until(
            lambda: self.show_wake(wake), lambda request: request.decision is not Decision.DEFERRED, timeout_seconds
        )

    async def cancel_wake(self, wake: str) -> WakeView:
        """Cancel a deferred request; its message stays in the inbox."""
        return await self._http.fetch(WakeView, "POST", "wakes", wake, "cancel")

    async def wake_matrix(self, *, since: Time | None = None, until: Time | None = None) -> list[WakePairCounts]:
        """Return the number of wake requests by sender, target and decision, by default of the last 24 hours."""
        return (
            await self._http.fetch(WakeMatrix, "GET", "wakes", "matrix", query={"since": since, "until": until})
        ).pairs

    async def show_chain(self, root: str) -> Chain:
        """Return the tree of a chain."""
        return await self._http.fetch(Chain, "GET", "chains", root)

    async def wake_stats(self, agent: str) -> WakeStatsView:
        """Return an agent's wakes in its current day, against its limits."""
        return await self._http.fetch(WakeStatsView, "GET", "agents", agent, "wake-stats")

    async def show_coordination(self, agent: str) -> CoordinationView:
        """Return the wake settings of an agent with their sources."""
        return await self._http.fetch(CoordinationView, "GET", "agents", agent, "coordination")

    async def change_coordination(
        self, agent: str, changes: Mapping[str, Any], *, if_match: str | None = None
    ) -> CoordinationView:
        """Change wake settings, nested as in the file or by flat name."""
        return await self._http.fetch(
            CoordinationView, "PATCH", "agents", agent, "coordination", body=changes, if_match=if_match
        )

    async def reset_coordination(self, agent: str, key: str, *, if_match: str | None = None) -> CoordinationView:
        """Undo a change of a setting, by its flat name: the file or the default applies again."""
        return await self._http.fetch(
            CoordinationView, "DELETE", "agents", agent, "coordination", key, if_match=if_match
        )

    async def show_inbox(
        self,
        agent: str,
        *,
        states: Sequence[str] = (),
        words: str | None = None,
        order: str = "urgent",
        after: str | None = None,
        limit: int = 50,
    ) -> InboxPage:
        """Return a page of an inbox, by default of unread messages; `after` is for the next page."""
        query = {"state": states, "q": words, "order": order, "after": after, "limit": limit}
        return await self._http.fetch(InboxPage, "GET", "agents", agent, "inbox", query=query)

    async def wait_for_inbox(self, agent: str, *, timeout_seconds: float | None = None) -> InboxPage:
        """Wait until the inbox has an unread message. Raises TimeoutError."""
        return await self._http.read_until(
            lambda: self.show_inbox(agent), lambda page: bool(page.messages), timeout_seconds
        )

    async def ack_message(self, agent: str, message: str) -> AckResult:
        """Mark a message as handled."""
        return await self._http.fetch(AckResult, "POST", "agents", agent, "inbox", message, "ack")

    async def snooze_message(self, agent: str, message: str, seconds: float) -> SnoozeResult:
        """Snooze a message."""
        body = {"seconds": seconds}
        return await self._http.fetch(SnoozeResult, "POST", "agents", agent, "inbox", message, "snooze", body=body)

    async def list_unhandled_messages(
        self, *, states: Sequence[str] = (), before: str | None = None, limit: int = 50
    ) -> UnhandledPage:
        """Return messages of all inboxes, by default dead letters, newest first; `before` is for the next page."""
        query = {"state": states, "before": before, "limit": limit}
        return await self._http.fetch(UnhandledPage, "GET", "messages", query=query)

    async def requeue_message(self, message: str) -> RequeueResult:
        """Return a dead letter to its inbox, with new attempts."""
        return await self._http.fetch(RequeueResult, "POST", "messages", message, "requeue")

    async def list_sent(self, agent: str, *, before: str | None = None, limit: int = 50) -> SentPage:
        """Return the status of an agent's sent messages, newest first; `before` is for the next page."""
        query = {"before": before, "limit": limit}
        return await self._http.fetch(SentPage, "GET", "agents", agent, "sent", query=query)

    async def list_pulses(
        self,
        agent: str,
        *,
        status: str | None = None,
        since: Time | None = None,
        before: str | None = None,
        limit: int = 100,
    ) -> PulseList:
        """Return an agent's pulses, newest first; `before` is for the next page."""
        query = {"status": status, "since": since, "before": before, "limit": limit}
        return await self._http.fetch(PulseList, "GET", "agents", agent, "pulses", query=query)

    async def start_pulse(
        self, agent: str, reason: str = "manual", *, timeout_seconds: float | None = None, override: str | None = None
    ) -> WakeOutcome:
        """Start a pulse by hand; it passes the guardrails unless `override` gives a reason to bypass them."""
        body = {"reason": reason, "timeout_seconds": timeout_seconds, "override": override}
        return await self._http.fetch(WakeOutcome, "POST", "agents", agent, "pulses", body=body)

    async def show_pulse(self, pulse: str) -> PulseView:
        return await self._http.fetch(PulseView, "GET", "pulses", pulse)

    async def wait_for_pulse(self, pulse: str, *, timeout_seconds: float | None = None) -> PulseView:
        """Wait until a pulse has ended, however it ended. Raises TimeoutError."""
        return await self._http.read_until(
            lambda: self.show_pulse(pulse), lambda it: it.ended_at is not None, timeout_seconds
        )

    async def cancel_pulse(self, pulse: str) -> PulseView:
        """Stop a pulse; the messages in its prompt become unread again."""
        return await self._http.fetch(PulseView, "POST", "pulses", pulse, "cancel")

    async def end_pulse(self, pulse: str, status: str, detail: str = "", *, epoch: int | None = None) -> PulseView:
        """Report the end of a run that a webhook started: `succeeded`, `failed`, or `suspended` until the next wake."""
        body = {"status": status, "detail": detail, "epoch": epoch}
        return await self._http.fetch(PulseView, "POST", "pulses", pulse, "end", body=body)

    async def show_schedule(self, agent: str, *, since: Time | None = None, until: Time | None = None) -> ScheduleView:
        """Return an agent's schedule, its occurrences in a time window (by default a week), and its next runs."""
        return await self._http.fetch(
            ScheduleView, "GET", "agents", agent, "schedule", query={"since": since, "until": until}
        )

    async def set_schedule(
        self,
        agent: str,
        *,
        routines: Sequence[Mapping[str, Any]] | None = None,
        blackouts: Sequence[Mapping[str, Any]] | None = None,
        dry_run: bool = False,
        if_match: str | None = None,
    ) -> ScheduleView:
        """Set all routines of an agent, all blackouts, or both; `dry_run` only shows what they come to."""
        body = {"routines": routines, "blackouts": blackouts}
        query = {"dry_run": dry_run}
        return await self._http.fetch(
            ScheduleView, "PUT", "agents", agent, "schedule", body=body, query=query, if_match=if_match
        )
