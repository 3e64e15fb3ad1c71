"""What the program asks of SQLite or PostgreSQL: a Protocol per noun, a transaction with all of them, and a store."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol

from circadia.ids import AgentId, MessageId, PulseId, SessionId, ThreadId
from circadia.records.agent import Agent
from circadia.records.message import Delivery, DeliveryState, Message
from circadia.records.session import Session
from circadia.records.thread import JoinResult, Participant, Thread
from circadia.stores.answers import Answers
from circadia.stores.ledger import Alerts, Calls, Conversations, Events, Provenances, ProviderIds, Retention
from circadia.stores.memory import Banks, Blocks, Episodes, Notes, Views
from circadia.stores.sleeping import Benefits, OpenTurns, Passes, SleepCalls, SleepStates
from circadia.stores.waking import Pulses, Routines, Wakes


class Sessions(Protocol):
    """Rows of sessions."""

    async def add(self, session: Session) -> None:
        """Store a new one. Raises Conflict if an open session has its name."""
        ...

    async def get(self, session_id: SessionId) -> Session | None: ...

    async def get_by_name(self, name: str) -> Session | None:
        """Return the open session of this name, else the one of this name that was closed last."""
        ...

    async def names_near(self, name: str) -> Sequence[str]:
        """Return a few names near this one in the alphabet."""
        ...

    async def find_all(self, *, closed: bool = False) -> Sequence[Session]:
        """Return the open ones, and with `closed` all, oldest first."""
        ...

    async def save(self, session: Session) -> None:
        """Write status, closed_at, touched_at and stalled."""
        ...

    async def touch(self, session_id: SessionId, at: datetime) -> None:
        """Set touched_at, and stalled to false."""
        ...

    async def find_silent_since(self, before: datetime) -> Sequence[Session]:
        """Return open sessions that have agents, all asleep, not yet told as stalled, touched at or before `before`."""
        ...


class Agents(Protocol):
    """Rows of agents; deleted ones are found by id and by `ever_named` only."""

    async def add(self, agent: Agent) -> None:
        """Store a new one. Raises Conflict if the session has an agent of this name."""
        ...

    async def get(self, agent_id: AgentId) -> Agent | None: ...

    async def get_by_name(self, session_id: SessionId, name: str) -> Agent | None: ...

    async def find_by_past_name(self, session: str | None, name: str) -> Sequence[Agent]:
        """Return the newest few that have or had this name in a session of that name, deleted ones too."""
        ...

    async def get_by_token(self, token_hash: str) -> Agent | None:
        """Return the agent of this token, disabled ones too."""
        ...

    async def find_by_session(self, session_id: SessionId) -> Sequence[Agent]:
        """Return the session's agents by name."""
        ...

    async def names_near(self, session_id: SessionId, name: str) -> Sequence[str]:
        """Return a few names near this one in the alphabet."""
        ...

    async def save(self, agent: Agent) -> None:
        """Write all but the sleep state (asleep, generation, since, cause, actor)."""
        ...

    async def save_sleep_state(self, agent: Agent, *, from_generation: int) -> bool:
        """Write the sleep state if the stored generation is `from_generation`; return whether it was."""
        ...

    async def lock(self, agent_id: AgentId) -> Agent | None:
        """Return the row, locked against other writers until the end of the transaction."""
        ...


class Threads(Protocol):
    """Rows of threads and of who takes part."""

    async def add(self, thread: Thread) -> None: ...

    async def get(self, thread_id: ThreadId) -> Thread | None: ...

    async def find_by_session(
        self, session_id: SessionId, *, agent_id: AgentId | None = None, closed: bool = True
    ) -> Sequence[Thread]:
        """Return threads, oldest first; with `agent_id` those in which it takes part now."""
        ...

    async def find_by_name(self, session_id: SessionId, name: str) -> Sequence[Thread]:
        """Return up to two threads of this name, open ones first and of these the newest."""
        ...

    async def names_near(self, session_id: SessionId, name: str, *, agent_id: AgentId | None = None) -> Sequence[str]:
        """Return a few names near this one in the alphabet; with `agent_id` of threads in which it takes part now."""
        ...

    async def count_open_by(self, session_id: SessionId, created_by: str) -> int:
        """Return the number of open threads that somebody has opened in the session."""
        ...

    async def close(self, thread: Thread) -> bool:
        """Write status, closed_at and summary if it is open; return whether it was."""
        ...

    async def join(self, thread_id: ThreadId, agent_id: AgentId, at: datetime) -> JoinResult:
        """Make the agent an active participant and say what that meant to it."""
        ...

    async def leave(self, thread_id: ThreadId, agent_id: AgentId) -> bool:
        """End the agent's part; return whether it had one."""
        ...

    async def participants(self, thread_id: ThreadId) -> Sequence[Participant]:
        """Return the active ones, by name; agents that were deleted left out."""
        ...

    async def count_open_of_agent(self, agent_id: AgentId) -> int:
        """Return in how many open threads the agent takes part."""
        ...


class Messages(Protocol):
    """Rows of messages."""

    async def add(self, message: Message, to: Collection[tuple[AgentId, bool]]) -> None:
        """Store it with one unread delivery for each (agent, mentioned); it has its number from then on."""
        ...

    async def get(self, message_id: MessageId) -> Message | None: ...

    async def get_by_key(self, key: str) -> Message | None:
        """Return the message of this idempotency key."""
        ...

    async def find_by_root(self, root_id: str) -> Sequence[Message]:
        """Return the messages of a chain, in order."""
        ...

    async def find_by_thread(self, thread_id: ThreadId, *, after: int = 0, limit: int = 100) -> Sequence[Message]:
        """Return messages with a greater number, in order."""
        ...

    async def find_latest(self, thread_id: ThreadId, *, limit: int) -> Sequence[Message]:
        """Return the last ones, in order."""
        ...

    async def index_next(self, *, limit: int) -> int:
        """Take at most `limit` new messages into the index of inboxes, where they are found sooner; return how many."""
        ...


class Deliveries(Protocol):
    """The one delivery table (GATE-71)."""

    async def find_unread(
        self, agent_id: AgentId, *, mentioned: bool | None = None, sender: str | None = None
    ) -> Sequence[Delivery]:
        """Return unread ones, the oldest 50 first."""
        ...

    async def count_unread(self, agent_id: AgentId) -> int:
        """Return how many are unread, in constant time."""
        ...

    async def count_unread_by_agent(self, agents: Sequence[AgentId]) -> Mapping[AgentId, tuple[int, int]]:
        """Return of those of these agents that have unread ones how many, and the number of the newest."""
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
        """Return deliveries in these states: urgent ones first if asked, else oldest first.

        Each of `words`, or a word that begins so, must stand in the text, whatever its case; nothing has no words.
        `after` is the last one of the page before.
        """
        ...

    async def get(self, agent_id: AgentId, message_id: MessageId) -> Delivery | None: ...

    async def count_by_state(self, agent_id: AgentId) -> Mapping[DeliveryState, int]:
        """Return how many there are in each state, in constant time."""
        ...

    async def find_sent(
        self, sender_id: AgentId, *, before: MessageId | None = None, limit: int = 50
    ) -> Sequence[Delivery]:
        """Return what became of an agent's messages, the newest first."""
        ...

    async def lease(
        self,
        agent_id: AgentId,
        messages: Collection[MessageId],
        until: datetime | None,
        *,
        now: datetime,
        pulse_id: PulseId | None = None,
        snoozed: bool = False,
    ) -> Sequence[MessageId]:
        """Move unread ones to leased; return which were unread.

        For a pulse; or until a time, `snoozed` or else on their way to a caller.
        """
        ...

    async def mark_handled(
        self, agent_id: AgentId, messages: Collection[MessageId], now: datetime
    ) -> Sequence[MessageId]:
        """Move leased or unread ones to handled; return which were."""
        ...

    async def release(self, agent_id: AgentId, messages: Collection[MessageId]) -> Sequence[MessageId]:
        """Move leased ones back to unread; return which were."""
        ...

    async def mark_seen(self, agent_id: AgentId, messages: Collection[MessageId], now: datetime) -> None:
        """Note when the agent first had these."""
        ...

    async def mark_dead(self, agent_id: AgentId, messages: Collection[MessageId], now: datetime) -> Sequence[MessageId]:
        """Move leased or unread ones to dead; return which were."""
        ...

    async def find_leased_by_pulse(self, pulse_id: PulseId) -> Sequence[MessageId]:
        """Return what the pulse has in its prompt and nobody has handled."""
        ...

    async def release_expired(self, now: datetime) -> Collection[AgentId]:
        """Move leases that ran out back to unread; return whose they were."""
        ...

    async def end_waits(self) -> Collection[AgentId]:
        """Move what is on its way to a caller back to unread; return whose it was."""
        ...

    async def delete_handled(self, before: datetime, *, limit: int) -> int:
        """Delete the oldest handled ones that ended before, so many at most; return how many there were.

        With them go direct messages to which no delivery, wake or answer refers any more.
        """
        ...


class Tx(Protocol):
    """One transaction over all nouns."""

    @property
    def sessions(self) -> Sessions: ...

    @property
    def agents(self) -> Agents: ...

    @property
    def threads(self) -> Threads: ...

    @property
    def messages(self) -> Messages: ...

    @property
    def deliveries(self) -> Deliveries: ...

    @property
    def events(self) -> Events: ...

    @property
    def calls(self) -> Calls: ...

    @property
    def provider_ids(self) -> ProviderIds: ...

    @property
    def provenances(self) -> Provenances: ...

    @property
    def alerts(self) -> Alerts: ...

    @property
    def retention(self) -> Retention: ...

    @property
    def conversations(self) -> Conversations: ...

    @property
    def wakes(self) -> Wakes: ...

    @property
    def pulses(self) -> Pulses: ...

    @property
    def routines(self) -> Routines: ...

    @property
    def banks(self) -> Banks: ...

    @property
    def episodes(self) -> Episodes: ...

    @property
    def notes(self) -> Notes: ...

    @property
    def blocks(self) -> Blocks: ...

    @property
    def views(self) -> Views: ...

    @property
    def answers(self) -> Answers: ...

    @property
    def passes(self) -> Passes: ...

    @property
    def sleep_states(self) -> SleepStates: ...

    @property
    def sleep_calls(self) -> SleepCalls: ...

    @property
    def benefits(self) -> Benefits: ...

    @property
    def open_turns(self) -> OpenTurns: ...

    def after_commit(self, act: Callable[[], None]) -> None:
        """Run `act` in the event loop once the transaction is durable, in order; never if it fails."""
        ...

    def after_rollback(self, act: Callable[[], None]) -> None:
        """Run `act` in the event loop once the transaction has failed, or may not be durable."""
        ...


class NotASingleRead(Exception):
    """A block of `Store.begin_single_read` was asked for more than one statement."""


class Store(Protocol):
    """Opens transactions on one database.

    `write` gives a serialized transaction: within a process one block runs at a time, blocks that wait are committed
    in groups, and the block's `async with` returns only when its work is durable and its `after_commit` acts have
    run. A block that raises is undone alone. `read` gives a consistent view, which may be ahead of the disk by what
    nobody has been told of yet, and must not write. Both raise StorageUnavailable when the database does not answer
    or its disk is full.
    """

    def begin_write(self) -> AbstractAsyncContextManager[Tx]: ...

    def begin_read(self) -> AbstractAsyncContextManager[Tx]: ...

    def begin_single_read(self) -> AbstractAsyncContextManager[Tx]:
        """Open what `read` does for whom one statement may be enough, which saves what begins and ends a transaction.

        What needs more raises MoreThanAGlance: begin again with `read`. A bank's row is always to be had.
        """
        ...

    async def ping(self) -> None:
        """Return if the database answers and can be written to, as far as is known. Raises StorageUnavailable."""
        ...

    async def close(self) -> None: ...
