"""A message, and its delivery to one agent: the one table behind waits and inbox."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from circadia.ids import AgentId, MessageId, SessionId, ThreadId


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
