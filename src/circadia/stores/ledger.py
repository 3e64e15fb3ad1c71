"""Store protocols for events and cursors in them, the usage ledger, provenances, alerts and conversations."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from circadia.errors import Conflict
from circadia.ids import AgentId, CallId, ConversationId, PulseId
from circadia.records.agent import Agent
from circadia.records.call import AgentSpend, Call, UsageGroup, UsagePage
from circadia.records.conversation import Conversation
from circadia.records.episode import Provenance
from circadia.records.event import Event, EventType
from circadia.records.overview import PendingAlertPost, RecentAlert
from circadia.records.retention import RetentionKind, RetentionPage


class Events(Protocol):
    """The append-only event log. A reader that has seen number n misses none below.

    Where blocks commit side by side (`Store.commits_in_order` is false), an event has its number, and is found by it,
    only after `assign_numbers` (see `EventSequencer`).
    """

    async def add(self, events: Sequence[Event]) -> None: ...

    async def has_unnumbered(self) -> bool:
        """Return whether any committed event waits for its number."""
        ...

    async def assign_numbers(self) -> None:
        """Give the committed events that have none their numbers, in the order in which they were written."""
        ...

    async def find_after(
        self,
        number: int,
        *,
        limit: int = 1000,
        session: str | None = None,
        agent: str | None = None,
        types: Collection[EventType] | None = None,
    ) -> Sequence[Event]:
        """Return events with a greater number, in order."""
        ...

    async def find_unnumbered(self, *, types: Collection[EventType]) -> Sequence[Event]:
        """Return committed events that have no number yet."""
        ...

    async def find_newest(
        self,
        *,
        limit: int = 1000,
        session: str | None = None,
        agent: str | None = None,
        types: Collection[EventType] | None = None,
    ) -> Sequence[Event]:
        """Return the latest events, newest first, with those without a number."""
        ...

    async def last_number(self) -> int: ...

    async def first_number(self) -> int:
        """Return the lowest stored number, or 0."""
        ...


class Calls(Protocol):
    """The usage ledger."""

    async def add(self, calls: Sequence[Call]) -> None:
        """Store calls, or overwrite those of the same id, to settle reservations."""
        ...

    async def remove(self, call_id: CallId) -> None:
        """Remove an unused reservation."""
        ...

    async def sum_day(self, agent: Agent, at: datetime) -> AgentSpend:
        """Return what counts for the agent's budgets on the UTC day of an instant, open reservations included.

        A call with unknown tokens or price counts as its reservation. What an earlier agent of the same name has used
        on that day counts as well.
        """
        ...

    async def count_since(self, agent_id: AgentId, since: datetime) -> int:
        """Return the number of the agent's calls since then, open reservations included."""
        ...

    async def find_latest(self, agent_id: AgentId, limit: int) -> Sequence[Call]:
        """Return the agent's last calls, newest first."""
        ...

    async def sum_by_group(
        self,
        *by: str,
        since: datetime | None = None,
        until: datetime | None = None,
        session: str | None = None,
        agent: str | None = None,
    ) -> Sequence[UsageGroup]:
        """Return sums by groupings, ordered by their keys.

        There are `agent`, `model`, `tier`, `session`, `upstream`, `end_user`, `conversation` and `day` (UTC). A call
        without one has the key ``.

        Raises:
            InvalidRequest: a grouping does not exist.
        """
        ...

    async def find_usage_page(
        self,
        *by: str,
        since: datetime | None = None,
        until: datetime | None = None,
        session: str | None = None,
        agent: str | None = None,
        limit: int,
        after: str | None = None,
    ) -> UsagePage:
        """Return about `limit` of these sums after the last cursor, and the total.

        With `agent`, `end_user` or `conversation`, the page has the groups of the next keys of that. With two of them,
        calls that lack one of them are in the total only.

        Raises:
            InvalidRequest: a grouping does not exist, or `after` is no cursor of such a report.
        """
        ...

    async def sum_by_pulse(self, root_id: str) -> Mapping[PulseId, UsageGroup]:
        """Return the sums over the ended calls that each pulse of a chain made; a pulse without calls is left out.

        Calls of an agent from a pulse's creation to its end are the pulse's. Old calls that are summed up by the day
        belong to none.
        """
        ...


class ProviderIds(Protocol):
    """The agent that received each provider-side id (GATE-60)."""

    async def add(self, upstream: str, provider_id: str, agent_id: AgentId, at: datetime) -> None:
        """Record an owner, unless the id has one."""
        ...

    async def owner(self, upstream: str, provider_id: str) -> AgentId | None: ...


class Provenances(Protocol):
    """Sources of recent texts."""

    async def add(self, new: Sequence[Provenance]) -> None: ...

    async def delete_expired(self, now: datetime, *, limit: int) -> int: ...

    async def find_recent(self, scope: str, *, after: int, now: datetime, limit: int) -> Sequence[Provenance]:
        """Return the scope's provenances with a greater number in order; if more than `limit`, the newest."""
        ...


class Retention(Protocol):
    """Deletes old rows."""

    async def delete_page(
        self, what: RetentionKind, before: datetime, *, limit: int, after: datetime | None = None
    ) -> RetentionPage:
        """Look at up to `limit` rows that ended before `before`, oldest first from `after` on, and delete what is free.

        Open rows, the newest event, and what another row needs are kept. Calls leave daily sums by session, agent,
        tier, upstream and model.
        """
        ...


class Alerts(Protocol):
    """Alerts that people have received, shared by all processes."""

    async def find_alert_times(self, cause: str) -> Mapping[str, datetime]:
        """Return the time of the last alert for this cause, by subject."""
        ...

    async def record_alert(
        self, cause: str, subject: str, at: datetime, post: Mapping[str, object] | None = None
    ) -> None:
        """Record an alert, and the body of a post that is due for it."""
        ...

    async def find_unposted(self) -> Sequence[PendingAlertPost]:
        """Return due posts that are not recorded as posted."""
        ...

    async def mark_posted(self, cause: str, subject: str, told_at: datetime) -> None:
        """Record that the alert of that time is posted."""
        ...

    async def clear_alert(self, cause: str, subject: str) -> None: ...

    async def find_recent(self, *, since: datetime, limit: int) -> Sequence[RecentAlert]:
        """Return the last alert for each cause and subject since then, newest first."""
        ...


class Cursors(Protocol):
    """How far readers of the event log came, and how far backlogs are written, by their name."""

    async def get(self, name: str) -> int | None: ...

    async def save(self, name: str, number: int) -> None: ...

    async def advance(self, name: str, number: int, *, or_raise: Conflict) -> None:
        """Set a number that ascends; if it is there already, the block raises `or_raise` by its end."""
        ...

    async def remove(self, name: str) -> None: ...

    async def retire(self, first: str, last: str) -> None:
        """Remove the cursors with names from `first` to `last`."""
        ...


class Conversations(Protocol):
    """Access to conversations (GATE-67)."""

    async def get(self, agent_id: AgentId, conversation_id: ConversationId) -> Conversation | None: ...

    async def find(self, agent_id: AgentId, heads: Sequence[str], *, name: str | None) -> Sequence[Conversation]:
        """Return the agent's conversation with this id, its newest with this handle, and its newest for each head."""
        ...

    async def add(self, conversations: Sequence[Conversation]) -> None:
        """Insert conversations, or add to the existing ones: turns and versions are summed, and end users merged.

        The row with the latest time decides head and handle.
        """
        ...
