"""Store protocols for threads, their messages and the deliveries of messages."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from circadia.ids import AgentId, MessageId, PulseId, SessionId, ThreadId
from circadia.records.message import Delivery, DeliveryState, Message
from circadia.records.thread import JoinResult, Participant, Thread


class Threads(Protocol):
    """Access to threads and their participants."""

    async def add(self, thread: Thread) -> None: ...

    async def get(self, thread_id: ThreadId) -> Thread | None: ...

    async def find_by_session(
        self,
        session_id: SessionId,
        *,
        agent_id: AgentId | None = None,
        closed: bool = True,
        after: ThreadId | None = None,
        limit: int | None = None,
    ) -> Sequence[Thread]:
        """Return threads by id, oldest first; with `agent_id` only those it takes part in now."""
        ...

    async def find_by_name(self, session_id: SessionId, name: str) -> Sequence[Thread]:
        """Return up to two threads of this name, open ones first, then the newest."""
        ...

    async def find_readers(self, session_id: SessionId, name: str) -> Sequence[tuple[ThreadId, AgentId | None]]:
        """Return open threads with this name or id and each participant, or None, without holding them."""
        ...

    async def names_near(self, session_id: SessionId, name: str, *, agent_id: AgentId | None = None) -> Sequence[str]:
        """Return a few names alphabetically near this one; with `agent_id` from threads it takes part in now."""
        ...

    async def count_open_by(self, session_id: SessionId, created_by: str) -> int:
        """Return the number of open threads in the session that `created_by` opened."""
        ...

    async def close(self, thread: Thread) -> bool:
        """Write status, closed_at and summary if the thread is open; return whether it was."""
        ...

    async def join(self, thread_id: ThreadId, agent_id: AgentId, at: datetime) -> JoinResult:
        """Make the agent an active participant."""
        ...

    async def leave(self, thread_id: ThreadId, agent_id: AgentId) -> bool:
        """End the agent's participation; return whether it took part."""
        ...

    async def participants(self, thread_id: ThreadId) -> Sequence[Participant]:
        """Return active participants by name, without deleted agents."""
        ...

    async def find_participant_names(self, thread_ids: Collection[ThreadId]) -> Mapping[ThreadId, Sequence[str]]:
        """Return the names of the active participants of each thread, sorted, without deleted agents."""
        ...

    async def count_open_of_agent(self, agent_id: AgentId) -> int: ...


class Messages(Protocol):
    async def add(
        self, message: Message, to: Collection[tuple[AgentId, bool]], *, missed: Collection[AgentId] = ()
    ) -> None:
        """Store a message with one unread delivery per (agent, mentioned), and assign its number.

        `missed` are those that it found awake, so that it woke them not.
        """
        ...

    async def get(self, message_id: MessageId) -> Message | None: ...

    async def get_by_key(self, key: str) -> Message | None: ...

    async def find_by_root(self, root_id: str) -> Sequence[Message]:
        """Return the messages of a chain in order."""
        ...

    async def find_by_thread(self, thread_id: ThreadId, *, after: int = 0, limit: int = 100) -> Sequence[Message]:
        """Return messages with a number greater than `after`, in order."""
        ...

    async def find_latest(self, thread_id: ThreadId, *, limit: int) -> Sequence[Message]:
        """Return the last messages in order."""
        ...

    async def index_next(self, *, limit: int) -> int:
        """Add up to `limit` new messages to the inbox index, which speeds up searches; return their number."""
        ...


class Deliveries(Protocol):
    """The only delivery table (GATE-71)."""

    async def find_unread(
        self, agent_id: AgentId, *, mentioned: bool | None = None, sender: str | None = None, newest: bool = False
    ) -> Sequence[Delivery]:
        """Return the oldest 50 unread deliveries, oldest first, or the `newest` 50, newest first."""
        ...

    async def mark_noticed(self, agent_id: AgentId, messages: Collection[MessageId]) -> None:
        """Mark deliveries as no longer missed: they have woken their agent, or asked for it."""
        ...

    async def count_unread(self, agent_id: AgentId) -> int:
        """Return the number of unread deliveries in constant time."""
        ...

    async def count_unread_by_agent(self, agents: Sequence[AgentId]) -> Mapping[AgentId, tuple[int, int]]:
        """Return the unread count and the newest number for each of these agents with unread deliveries."""
        ...

    async def fetch_inbox(
        self,
        agent_id: AgentId,
        *,
        states: Collection[DeliveryState] = (DeliveryState.UNREAD,),
        words: str | None = None,
        urgent_first: bool = False,
        after: MessageId | None = None,
        limit: int = 50,
    ) -> Sequence[Delivery]:
        """Return deliveries in these states, oldest first, or urgent ones first.

        Each of `words` must match a word of the text or the start of one, ignoring case; a text without words matches
        nothing. `after` is the last delivery of the previous page.
        """
        ...

    async def get(self, agent_id: AgentId, message_id: MessageId) -> Delivery | None: ...

    async def count_by_state(self, agent_id: AgentId) -> Mapping[DeliveryState, int]:
        """Return the number of deliveries in each state, in constant time."""
        ...

    async def find_sent(
        self, sender_id: AgentId, *, before: MessageId | None = None, limit: int = 50
    ) -> Sequence[Delivery]:
        """Return the deliveries of an agent's messages, newest first."""
        ...

    async def find_unhandled(
        self, states: Collection[DeliveryState], *, before: MessageId | None = None, limit: int
    ) -> Sequence[Delivery]:
        """Return the deliveries of all present agents in these states, none of them handled, newest message first."""
        ...

    async def find_by_message(self, message_id: MessageId) -> Sequence[Delivery]:
        """Return the deliveries of a message to all agents."""
        ...

    async def lease(
        self,
        agent_id: AgentId,
        messages: Collection[MessageId],
        until: datetime | None,
        *,
        now: datetime,
        snoozed: bool = False,
    ) -> Sequence[MessageId]:
        """Lease unread deliveries, for a snooze or a response in flight; return those that were unread, in order."""
        ...

    async def lease_for_pulse(self, agent_id: AgentId, messages: Collection[MessageId], pulse_id: PulseId) -> None:
        """Lease unread deliveries until the end of a pulse that has them in its prompt."""
        ...

    async def mark_seen_by_pulse(self, agent_id: AgentId, pulse_id: PulseId, now: datetime) -> None:
        """Record when the agent first received the messages in the prompt of its pulse: when that started."""
        ...

    async def mark_handled(
        self, agent_id: AgentId, messages: Collection[MessageId], now: datetime
    ) -> Sequence[MessageId]:
        """Mark deliveries as handled; return those that changed."""
        ...

    async def mark_handled_by_pulse(self, agent_id: AgentId, pulse_id: PulseId, now: datetime) -> None:
        """Mark the unhandled messages in the pulse's prompt as handled."""
        ...

    async def release(self, agent_id: AgentId, messages: Collection[MessageId]) -> Sequence[MessageId]:
        """Return leased deliveries to unread; return those that changed."""
        ...

    async def mark_seen(self, agent_id: AgentId, messages: Collection[MessageId], now: datetime) -> None:
        """Record when the agent first received these."""
        ...

    async def mark_dead(self, agent_id: AgentId, messages: Collection[MessageId], now: datetime) -> Sequence[MessageId]:
        """Mark leased or unread deliveries as dead; return those that changed."""
        ...

    async def requeue(self, agent_id: AgentId, messages: Collection[MessageId]) -> Sequence[MessageId]:
        """Return dead deliveries to unread; return those that changed."""
        ...

    async def find_leased_by_pulse(self, pulse_id: PulseId) -> Sequence[MessageId]:
        """Return the unhandled messages in the pulse's prompt."""
        ...

    async def release_expired(self, now: datetime) -> Collection[AgentId]:
        """Return expired leases to unread; return the affected agents."""
        ...

    async def end_waits(self) -> Collection[AgentId]:
        """Return deliveries that are in flight to a caller to unread; return the affected agents."""
        ...

    async def delete_handled(self, before: datetime, *, limit: int) -> int:
        """Delete up to `limit` handled deliveries that ended before `before`, oldest first; return their number.

        Direct messages that no delivery, wake or answer refers to any more are deleted too.
        """
        ...
