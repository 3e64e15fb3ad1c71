"""A message, and its delivery to one agent: the one table behind waits and inbox."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from circadia.ids import AgentId, MessageId, PulseId, SessionId, ThreadId


class Priority(StrEnum):
    """How soon a message wants to be read; the last two ask for a wake (WAKE-06)."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"
    URGENT = "urgent"

    @property
    def rank(self) -> int:
        """Return 0 for low … 3 for urgent."""
        return _RANKS[self]

    @staticmethod
    def from_rank(rank: int) -> "Priority":
        """Return the priority of this rank."""
        return tuple(Priority)[rank]


_RANKS: Final = {each: rank for rank, each in enumerate(Priority)}


class MessageType(StrEnum):
    """What a message is for."""

    INFO = "info"
    REVIEW_REQUEST = "review_request"
    HELP_REQUEST = "help_request"
    UNBLOCK = "unblock"


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """What one participant said in a thread."""

    id: MessageId
    """Key."""
    number: int
    """Order of acceptance, ascending; 0 until it is stored."""
    thread_id: ThreadId
    """Where it was said."""
    session_id: SessionId
    """The thread's session."""
    sender_id: AgentId | None
    """Who said it; none for a person through REST."""
    sender: str
    """The sender's name as readers see it."""
    content: str
    """The text."""
    mentions: tuple[str, ...] = ()
    """Names of the agents that it mentions."""
    at: datetime
    """When it was accepted."""
    type: MessageType = MessageType.INFO
    """What it is for."""
    priority: Priority = Priority.NORMAL
    """How soon it wants to be read."""
    reply_to: MessageId | None = None
    """The message that it answers."""
    key: str | None = None
    """Idempotency key, with its sender before it; unique (WAKE-03)."""
    root_id: str | None = None
    """First wake or message of its chain; none outside of chains."""
    parent_id: str | None = None
    """The wake behind the pulse in which it was said."""
    depth: int = 0
    """Wakes from the root of its chain."""


class DeliveryState(StrEnum):
    """Where a delivery stands (GATE-71, WAKE-30)."""

    UNREAD = "unread"
    LEASED = "leased"
    HANDLED = "handled"
    DEAD = "dead"


DELIVERY_MOVES: Final[dict[DeliveryState, frozenset[DeliveryState]]] = {
    DeliveryState.UNREAD: frozenset({DeliveryState.LEASED, DeliveryState.HANDLED, DeliveryState.DEAD}),
    DeliveryState.LEASED: frozenset({DeliveryState.UNREAD, DeliveryState.HANDLED, DeliveryState.DEAD}),
    DeliveryState.HANDLED: frozenset(),
    DeliveryState.DEAD: frozenset(),
}
"""The allowed moves; a lease that is not confirmed falls back to unread."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Delivery:
    """One message on its way to one agent."""

    message: Message
    """What is delivered."""
    agent_id: AgentId
    """To whom."""
    thread: str
    """The thread's name."""
    state: DeliveryState
    """Where it stands."""
    mentioned: bool
    """Whether the message mentions this agent."""
    leased_until: datetime | None = None
    """When a lease without a pulse ends: an answer on its way, or a snooze."""
    pulse_id: PulseId | None = None
    """The pulse in whose prompt it is, or was last."""
    seen_at: datetime | None = None
    """When the agent, or a prompt, first had it."""
    ended_at: datetime | None = None
    """When it was handled, or given up."""
