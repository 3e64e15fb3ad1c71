"""A message and its deliveries: the one table behind waits and inbox."""

import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from circadia.errors import InvalidRequest
from circadia.ids import AgentId, MessageId, PulseId, SessionId, ThreadId


class Priority(StrEnum):
    """Urgency of a message; the last two request a wake (WAKE-06)."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"
    URGENT = "urgent"

    @property
    def rank(self) -> int:
        """0 is low, 3 is urgent."""
        return _RANKS[self]

    @staticmethod
    def from_rank(rank: int) -> "Priority":
        return tuple(Priority)[rank]


_RANKS: Final = {priority: rank for rank, priority in enumerate(Priority)}


class MessageType(StrEnum):
    """Purpose of a message."""

    INFO = "info"
    REVIEW_REQUEST = "review_request"
    HELP_REQUEST = "help_request"
    UNBLOCK = "unblock"


_EXTERNAL: Final = "redis:"
_NAMED_EVENT: Final = "event:"
_HOOK: Final = "hook:"
_EXTERNAL_NAME: Final = re.compile(r"[\w.@+ -]{1,63}")


def build_external_sender(name: str) -> str:
    """Return the display name of a sender outside of Circadia. Raises InvalidRequest if it cannot be shown."""
    if not _EXTERNAL_NAME.fullmatch(name):
        raise InvalidRequest(f"the sender {name[:63]!r} is no name; write 1 to 63 letters, digits, spaces or . @ + - _")
    return _EXTERNAL + name


def build_event_sender(name: str) -> str:
    """Return the display name of the sender of a named event's message."""
    return _NAMED_EVENT + name


def build_hook_sender(name: str) -> str:
    """Return the display name of the sender of a webhook's message."""
    return _HOOK + name


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """A message in a thread."""

    id: MessageId
    number: int
    """Order of acceptance, ascending; 0 until stored."""
    thread_id: ThreadId
    session_id: SessionId
    sender_id: AgentId | None
    """None for a person through REST, and for a sender outside of Circadia."""
    sender: str
    """Display name."""
    content: str
    mentions: tuple[str, ...] = ()
    """Names of the mentioned agents."""
    at: datetime
    type: MessageType = MessageType.INFO
    priority: Priority = Priority.NORMAL
    reply_to: MessageId | None = None
    key: str | None = None
    """Idempotency key, prefixed with its sender; unique (WAKE-03)."""
    root_id: str | None = None
    """First wake or message of its chain; none outside a chain."""
    parent_id: str | None = None
    """The wake that started the sender's pulse."""
    depth: int = 0
    """Wakes from the root of its chain."""

    @property
    def is_external(self) -> bool:
        """Whether it came from outside of Circadia."""
        return self.sender_id is None and self.sender.startswith((_EXTERNAL, _NAMED_EVENT, _HOOK))


class DeliveryState(StrEnum):
    """State of a delivery (GATE-71, WAKE-30)."""

    UNREAD = "unread"
    LEASED = "leased"
    HANDLED = "handled"
    DEAD = "dead"


DELIVERY_MOVES: Final[dict[DeliveryState, frozenset[DeliveryState]]] = {
    DeliveryState.UNREAD: frozenset({DeliveryState.LEASED, DeliveryState.HANDLED, DeliveryState.DEAD}),
    DeliveryState.LEASED: frozenset({DeliveryState.UNREAD, DeliveryState.HANDLED, DeliveryState.DEAD}),
    DeliveryState.HANDLED: frozenset(),
    DeliveryState.DEAD: frozenset({DeliveryState.UNREAD, DeliveryState.HANDLED}),
}
"""An unconfirmed lease falls back to unread, and so does a dead letter that an operator requeues. Handled is final."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Delivery:
    """A message addressed to one agent."""

    message: Message
    agent_id: AgentId
    thread: str
    """The thread's name."""
    state: DeliveryState
    mentioned: bool
    missed: bool = False
    """Whether it found its agent awake, and has not woken it since (WAKE-88)."""
    leased_until: datetime | None = None
    """End of a lease without a pulse: a response in flight, or a snooze."""
    pulse_id: PulseId | None = None
    """The last pulse that had it in its prompt."""
    seen_at: datetime | None = None
    """When the agent, or a prompt, first received it."""
    ended_at: datetime | None = None
    """When it was handled or given up."""
