"""What the program asks of a database for events, the usage ledger and calls; `base.py` has the rest."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from circadia.ids import AgentId, CallId, ConversationId
from circadia.records.alert import PendingAlertPost
from circadia.records.call import AgentSpend, Call, UsageGroup
from circadia.records.conversation import Conversation
from circadia.records.event import Event, EventType
from circadia.records.provenance import Provenance
from circadia.records.retention import RetentionKind


class Events(Protocol):
    """The append-only record; numbers ascend in the order of commits: a reader that has seen n misses none below."""

    async def add(self, events: Sequence[Event]) -> None: ...

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

    async def last_number(self) -> int: ...

    async def first_number(self) -> int:
        """Return the least number that is kept; 0 if there is none."""
        ...


class Calls(Protocol):
    """The usage ledger."""

    async def add(self, calls: Sequence[Call]) -> None:
        """Store calls, or overwrite those with the same id (a reservation that is settled)."""
        ...

    async def remove(self, call_id: CallId) -> None:
        """Take back a reservation that was not used."""
        ...

    async def sum_usage(self, agent_id: AgentId, since: datetime) -> AgentSpend:
        """Return what the agent used since then, reservations included."""
        ...

    async def find_latest(self, agent_id: AgentId, limit: int) -> Sequence[Call]:
        """Return the agent's last calls, the last one first."""
        ...

    async def sum_by_group(
        self,
        by: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        session: str | None = None,
        agent: str | None = None,
    ) -> Sequence[UsageGroup]:
        """Return sums by `agent`, `model`, `tier`, `session`, `upstream`, `end_user`, `conversation` or `day` (UTC)."""
        ...


class ProviderIds(Protocol):
    """Which agent a provider's id was handed out to (GATE-60)."""

    async def add(self, upstream: str, provider_id: str, agent_id: AgentId, at: datetime) -> None:
        """Record it; the first owner stays."""
        ...

    async def owner(self, upstream: str, provider_id: str) -> AgentId | None: ...


class Provenances(Protocol):
    """Whose word recent texts are."""

    async def add(self, new: Sequence[Provenance], now: datetime) -> None:
        """Store them; delete what has expired by now."""
        ...

    async def find_recent(self, scope: str, *, after: int, now: datetime, limit: int) -> Sequence[Provenance]:
        """Return those of the scope with a greater number, in order; of more than `limit` the newest."""
        ...


class Retention(Protocol):
    """Deletes rows that were kept long enough."""

    async def delete_expired(self, what: RetentionKind, before: datetime, *, limit: int) -> int:
        """Delete up to `limit` rows of this kind that ended before, the oldest first, and return their number.

        What is still open stays, and the newest event. Of calls the sums of each day stay, by session, agent, tier,
        upstream and model.
        """
        ...


class Alerts(Protocol):
    """What people have been alerted of, once for all processes."""

    async def find_alert_times(self, cause: str) -> Mapping[str, datetime]:
        """Return when each subject was last told of for this cause."""
        ...

    async def record_alert(
        self, cause: str, subject: str, at: datetime, post: Mapping[str, object] | None = None
    ) -> None:
        """Note that it is told now, and what of it is to be posted."""
        ...

    async def find_unposted(self) -> Sequence[PendingAlertPost]:
        """Return what is to be posted and is not, as far as anybody knows."""
        ...

    async def mark_posted(self, cause: str, subject: str, told_at: datetime) -> None:
        """Note that what was told then is posted."""
        ...

    async def clear_alert(self, cause: str, subject: str) -> None:
        """Forget it."""
        ...


class Conversations(Protocol):
    """Rows of conversations (GATE-67)."""

    async def get(self, agent_id: AgentId, conversation_id: ConversationId) -> Conversation | None: ...

    async def find_latest(self, limit: int) -> Sequence[Conversation]:
        """Return those of all agents that were seen last, the last one first."""
        ...

    async def put(self, conversations: Sequence[Conversation]) -> None:
        """Store them, or overwrite those with the same agent and id; each pair of agent and id once."""
        ...
