"""The client, with one method per endpoint."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Literal, Self

from circadia.client.alarms import AlarmCalls
from circadia.client.approvals import ApprovalCalls
from circadia.client.connection import MAX_RETRIES, ApiConnection, Time
from circadia.client.hooks import HookCalls
from circadia.client.memory import MemoryCalls
from circadia.client.people import PeopleCalls
from circadia.client.sleeptime import SleeptimeCalls
from circadia.client.wakes import WakeCalls
from circadia.clock import Clock, SystemClock
from circadia.schemas.agents import (
    AgentCreated,
    AgentList,
    AgentStateList,
    AgentStateView,
    AgentToken,
    AgentView,
    SleepingList,
    SleepingView,
)
from circadia.schemas.calls import CallDetail, CallList, CallState
from circadia.schemas.config import ConfigurationView
from circadia.schemas.events import EventGap, EventList, EventView
from circadia.schemas.fleet import (
    Cluster,
    HeldCall,
    HoldList,
    OverviewView,
    SavingsReport,
    UpstreamList,
    UpstreamView,
    UsageReport,
)
from circadia.schemas.search import SearchResult
from circadia.schemas.sessions import (
    MessageList,
    MessageView,
    SessionCreated,
    SessionDetail,
    SessionList,
    SessionView,
    ThreadList,
    ThreadView,
)
from circadia.schemas.timeline import Timeline, TimelineSums


class Client(WakeCalls, AlarmCalls, ApprovalCalls, HookCalls, MemoryCalls, PeopleCalls, SleeptimeCalls):
    """A client for the REST API of a Circadia server.

    Use it as `async with Client("http://127.0.0.1:4114", token) as client`. `timeout` is in seconds, per call. Each
    method raises the error class of `circadia.errors` with the code of the server's answer, and Unreachable if no
    server answers. Sessions are given by name or id, threads by id or, if only one open thread has it, by name. With
    `if_match`, the `etag` of an answer, a change is made only if the settings are still those of that answer.
    """

    def __init__(
        self,
        base_url: str,
        token: str,
        *,
        timeout: float = 30.0,
        max_retries: int = MAX_RETRIES,
        clock: Clock | None = None,
    ) -> None:
        """A GET, or a change with a `key`, is sent again up to `max_retries` times after a temporary failure."""
        self._http = ApiConnection(
            base_url, token, timeout=timeout, max_retries=max_retries, clock=clock or SystemClock()
        )

    async def __aenter__(self) -> Self:
        self._http.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.close()

    async def create_session(
        self,
        name: str | None = None,
        *,
        agents: Sequence[Mapping[str, Any]] = (),
        threads: Sequence[Mapping[str, Any]] = (),
        all_but: Sequence[str] | None = None,
    ) -> SessionCreated:
        """Create a session with its agents and threads, all or nothing.

        With `all_but`, all other agents start asleep and wake when added to a thread.
        """
        body: dict[str, Any] = {"name": name, "agents": agents, "threads": threads}
        if all_but is not None:
            body["sleepers"] = {"all_but": all_but}
        return await self._http.fetch(SessionCreated, "POST", "sessions", body=body)

    async def list_sessions(self, *, closed: bool = False) -> list[SessionView]:
        """Return the open sessions, or all with `closed`."""
        return await self._http.fetch_all(SessionList, "sessions", "sessions", query={"closed": closed})

    async def show_session(self, session: str) -> SessionDetail:
        return await self._http.fetch(SessionDetail, "GET", "sessions", session)

    async def close_session(self, session: str) -> SessionView:
        """Close a session; its agents' tokens become invalid."""
        return await self._http.fetch(SessionView, "DELETE", "sessions", session)

    async def create_agent(
        self,
        session: str,
        name: str,
        *,
        description: str = "",
        sleep_events: Sequence[str] = (),
        wake_events: Sequence[str] | None = None,
        policy: Mapping[str, Any] | None = None,
    ) -> AgentCreated:
        """Create an agent; only this answer holds its token. By default a mention wakes it."""
        body: dict[str, Any] = {
            "name": name,
            "description": description,
            "sleep_events": sleep_events,
            "policy": policy or {},
        }
        if wake_events is not None:
            body["wake_events"] = wake_events
        return await self._http.fetch(AgentCreated, "POST", "sessions", session, "agents", body=body)

    async def list_agents(self, session: str) -> list[AgentView]:
        """Return the session's agents with their sleep state, sorted by name."""
        return await self._http.fetch_all(AgentList, "agents", "sessions", session, "agents")

    async def list_agent_states(self, agents: Sequence[str] = (), *, limit: int = 10_000) -> list[AgentStateView]:
        """Return the sleep states of agents in all open sessions, or of these references."""
        query = {"agent": agents, "limit": limit}
        return await self._http.fetch_all(AgentStateList, "agents", "agents", query=query, max_rows=limit)

    async def show_agent(self, session: str, agent: str) -> AgentView:
        return await self._http.fetch(AgentView, "GET", "sessions", session, "agents", agent)

    async def change_agent(
        self,
        session: str,
        agent: str,
        *,
        enabled: bool | None = None,
        description: str | None = None,
        sleep_events: Sequence[str] | None = None,
        wake_events: Sequence[str] | None = None,
        policy: Mapping[str, Any] | None = None,
        if_match: str | None = None,
    ) -> AgentView:
        """Change the given values."""
        body = {
            "enabled": enabled, "description": description, "sleep_events": sleep_events, "wake_events": wake_events,
            "policy": policy,
        }  # fmt: skip
        return await self._http.fetch(
            AgentView, "PATCH", "sessions", session, "agents", agent, body=body, if_match=if_match
        )

    async def delete_agent(self, session: str, agent: str) -> None:
        """Delete an agent; its held calls end."""
        await self._http.call("DELETE", "sessions", session, "agents", agent)

    async def rotate_token(self, session: str, agent: str) -> str:
        """Replace the agent's token and return the new one; the old one becomes invalid."""
        return (await self._http.fetch(AgentToken, "POST", "sessions", session, "agents", agent, "token")).token

    async def sleeping(self, session: str, agent: str) -> SleepingView:
        """Return an agent's sleep state."""
        return await self._http.fetch(SleepingView, "GET", "sessions", session, "agents", agent, "sleeping")

    async def set_sleeping(
        self,
        session: str,
        agent: str,
        sleeping: bool,
        *,
        until: str | None = None,
        for_seconds: float | None = None,
        wake_on: Sequence[str] = (),
        filter: Mapping[str, Any] | None = None,
        reason: str = "",
        cancel_if_woken: bool = False,
    ) -> SleepingView:
        """Put an agent to sleep or wake it.

        An agent that puts itself to sleep may set an alarm (`until` or `for_seconds`, with a `reason`) and name what
        wakes it besides: `mention`, `message` or `event:NAME`, for events whose data contains the `filter`.
        """
        wish = {
            "until": until, "for_seconds": for_seconds, "wake_on": list(wake_on), "filter": filter, "reason": reason,
            "cancel_if_woken": cancel_if_woken,
        }  # fmt: skip
        body = {"sleeping": sleeping, **{key: value for key, value in wish.items() if value}}
        return await self._http.fetch(SleepingView, "PUT", "sessions", session, "agents", agent, "sleeping", body=body)

    async def wait_until_sleeping(
        self, session: str, agent: str, sleeping: bool = True, *, timeout_seconds: float | None = None
    ) -> SleepingView:
        """Wait until the agent is asleep, or awake with `sleeping=False`. Raises TimeoutError."""
        return await self._http.read_until(
            lambda: self.sleeping(session, agent), lambda state: state.sleeping is sleeping, timeout_seconds
        )

    async def set_many_sleeping(
        self, session: str, sleeping: bool, agents: Sequence[str] | None = None
    ) -> list[SleepingView]:
        """Put agents of a session (by default all of them) to sleep or wake them."""
        body = {"sleeping": sleeping, "agents": agents}
        return (await self._http.fetch(SleepingList, "PUT", "sessions", session, "sleeping", body=body)).agents

    async def list_threads(self, session: str, *, closed: bool = True) -> list[ThreadView]:
        """Return threads, oldest first; an agent gets only those in which it takes part."""
        query = {"closed": closed}
        return await self._http.fetch_all(ThreadList, "threads", "sessions", session, "threads", query=query)

    async def create_thread(self, session: str, name: str, participants: Sequence[str] = ()) -> ThreadView:
        body = {"name": name, "participants": participants}
        return await self._http.fetch(ThreadView, "POST", "sessions", session, "threads", body=body)

    async def add_participant(self, session: str, thread: str, agent: str) -> ThreadView:
        """Add an agent to a thread, which can wake it."""
        body = {"agent": agent}
        return await self._http.fetch(
            ThreadView, "POST", "sessions", session, "threads", thread, "participants", body=body
        )

    async def remove_participant(self, session: str, thread: str, agent: str) -> None:
        """Remove an agent from a thread, which can put it to sleep."""
        await self._http.call("DELETE", "sessions", session, "threads", thread, "participants", agent)

    async def close_thread(self, session: str, thread: str, summary: str | None = None) -> ThreadView:
        """Close a thread, which can put its participants to sleep."""
        body = {"summary": summary}
        return await self._http.fetch(ThreadView, "POST", "sessions", session, "threads", thread, "close", body=body)

    async def send_message(
        self, session: str, thread: str, content: str, mentions: Sequence[str] = (), *, sender: str | None = None
    ) -> MessageView:
        """Send a message to a thread, which can wake the mentioned agents."""
        body = {"from": sender, "content": content, "mentions": mentions}
        return await self._http.fetch(
            MessageView, "POST", "sessions", session, "threads", thread, "messages", body=body
        )

    async def list_messages(
        self, session: str, thread: str, *, after: int = 0, before: int | None = None, limit: int = 100
    ) -> list[MessageView]:
        """Return messages with a number above `after`, or the last ones with a number below `before`, in order."""
        query = {"after": after, "before": before, "limit": limit}
        answer = await self._http.fetch(
            MessageList, "GET", "sessions", session, "threads", thread, "messages", query=query
        )
        return answer.messages

    async def wait_for_messages(
        self, session: str, thread: str, *, after: int = 0, timeout_seconds: float | None = None
    ) -> list[MessageView]:
        """Wait for messages with a greater number than `after`; return up to 100, in order. Raises TimeoutError."""
        return await self._http.read_until(
            lambda: self.list_messages(session, thread, after=after), bool, timeout_seconds
        )

    async def show_overview(self) -> OverviewView:
        """Return the fleet at a glance, with what is not well."""
        return await self._http.fetch(OverviewView, "GET", "overview")

    async def show_cluster(self) -> Cluster:
        """Return the live servers on the database."""
        return await self._http.fetch(Cluster, "GET", "cluster")

    async def list_upstreams(self) -> list[UpstreamView]:
        """Return the providers behind the gateway, with what an agent's environment needs to reach them."""
        return (await self._http.fetch(UpstreamList, "GET", "upstreams")).upstreams

    async def list_holds(self, *, session: str | None = None, agent: str | None = None, limit: int = 1000) -> HoldList:
        """Return the held calls, longest first and up to `limit`, and the numbers of those at other servers."""
        query = {"session": session, "agent": agent, "limit": limit}
        return await self._http.fetch(HoldList, "GET", "holds", query=query)

    async def drop_hold(self, hold: str) -> HeldCall:
        """End a call that the server holds with an error; its agent stays asleep."""
        return await self._http.fetch(HeldCall, "POST", "holds", hold, "drop")

    async def list_events(
        self,
        after: int = 0,
        *,
        limit: int = 1000,
        order: Literal["oldest", "newest"] = "oldest",
        session: str | None = None,
        agent: str | None = None,
        types: Sequence[str] = (),
    ) -> list[EventView]:
        """Return events with a number above `after`, in order; or the newest events, newest first."""
        query = {
            "after": after, "limit": limit, "order": order,
            "session": session, "agent": agent, "type": types,
        }  # fmt: skip
        return (await self._http.fetch(EventList, "GET", "events", query=query)).events

    async def events(
        self,
        after: int | None = None,
        *,
        session: str | None = None,
        agent: str | None = None,
        types: Sequence[str] = (),
        on_gap: Callable[[EventGap], object] | None = None,
    ) -> AsyncGenerator[EventView]:
        """Yield events as they happen, starting after `after` or now; reconnects cause no gap and no duplicate.

        If events were deleted before they were read, `on_gap` is called; without it, TargetGone is raised.
        """
        query = {"session": session, "agent": agent, "type": types}
        follow = self._http.follow(EventView, "events", "stream", after=after, query=query, on_gap=on_gap)
        async with aclosing(follow) as followed:
            async for event in followed:
                yield event

    async def show_timeline(
        self,
        *,
        since: str | None = None,
        until: str | None = None,
        session: str | None = None,
        agent: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Timeline:
        """Return a page of what agents did, by default on this UTC day; `after` is the `next` of the page before."""
        query = {
            "since": since, "until": until, "session": session, "agent": agent, "after": after, "limit": limit,
        }  # fmt: skip
        return await self._http.fetch(Timeline, "GET", "timeline", query=query)

    async def export_timeline(
        self,
        *,
        since: str | None = None,
        until: str | None = None,
        session: str | None = None,
        agent: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> AsyncGenerator[bytes]:
        """Yield such a page as CSV, in chunks of any size."""
        query = {
            "since": since, "until": until, "session": session, "agent": agent, "after": after, "limit": limit,
        }  # fmt: skip
        async with aclosing(self._http.chunks("timeline.csv", query=query)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def sum_timeline(
        self,
        group_by: Literal["session", "fleet"] = "session",
        *,
        since: str | None = None,
        until: str | None = None,
        session: str | None = None,
    ) -> TimelineSums:
        """Return a page of what agents did by quarter of an hour; `since` of the next page is its `next`."""
        query = {"group_by": group_by, "since": since, "until": until, "session": session}
        return await self._http.fetch(TimelineSums, "GET", "timeline", "sums", query=query)

    async def usage(
        self,
        group_by: str = "agent",
        *,
        since: Time | None = None,
        until: Time | None = None,
        session: str | None = None,
        agent: str | None = None,
        after: str | None = None,
        limit: int = 1000,
    ) -> UsageReport:
        """Return totals of the ended model calls by one or two groupings, as in `day,tier`.

        `after` is the `next` of the page before.
        """
        query = {
            "group_by": group_by, "since": since, "until": until, "session": session, "agent": agent, "after": after,
            "limit": limit,
        }  # fmt: skip
        return await self._http.fetch(UsageReport, "GET", "usage", query=query)

    async def report_savings(self, *, days: int = 13) -> SavingsReport:
        """Return an estimate of what sleeping and dreaming saved today, and on so many days before."""
        return await self._http.fetch(SavingsReport, "GET", "usage", "savings", query={"days": days})

    async def list_calls(
        self,
        *,
        session: str | None = None,
        agent: str | None = None,
        model: str | None = None,
        tier: str | None = None,
        status: CallState | None = None,
        upstream: str | None = None,
        end_user: str | None = None,
        conversation: str | None = None,
        since: str | None = None,
        until: str | None = None,
        order: Literal["newest", "cost"] = "newest",
        after: str | None = None,
        limit: int = 100,
    ) -> CallList:
        """Return model calls, newest first; with status `held`, those that the server holds.

        By `cost`, a page has the dearest of the next 5,000 calls.

        `after` is the `next` of the page before. A page that few calls meet is short, and has a `next` all the same.
        """
        query = {
            "session": session, "agent": agent, "model": model, "tier": tier, "status": status, "upstream": upstream,
            "end_user": end_user, "conversation": conversation, "since": since, "until": until, "order": order,
            "after": after, "limit": limit,
        }  # fmt: skip
        return await self._http.fetch(CallList, "GET", "calls", query=query)

    async def show_call(self, call: str) -> CallDetail:
        """Return a model call, or one that is or was held, by the id of its hold."""
        return await self._http.fetch(CallDetail, "GET", "calls", call)

    async def search(self, q: str, *, bank: str | None = None, limit: int = 5) -> SearchResult:
        """Find things by the beginning of a name or id or a part of a name, and texts of a bank."""
        return await self._http.fetch(SearchResult, "GET", "search", query={"q": q, "bank": bank, "limit": limit})

    async def show_config(self) -> ConfigurationView:
        """Return the configuration with which the server has started, without secrets."""
        return await self._http.fetch(ConfigurationView, "GET", "config")
