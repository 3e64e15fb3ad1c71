"""An entry of the append-only event log."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class EventType(StrEnum):
    """Kinds of events (GATE-80)."""

    SESSION_CREATED = "session_created"
    SESSION_CLOSED = "session_closed"
    SESSION_STALLED = "session_stalled"
    AGENT_CREATED = "agent_created"
    AGENT_CHANGED = "agent_changed"
    AGENT_DELETED = "agent_deleted"
    TOKEN_ROTATED = "token_rotated"
    ACCESS_GRANTED = "access_granted"
    ACCESS_REVOKED = "access_revoked"
    SLEEP_START = "sleep_start"
    SLEEP_STOP = "sleep_stop"
    HELD = "held"
    ADMITTED = "admitted"
    DROPPED = "dropped"
    THREAD_CREATED = "thread_created"
    THREAD_CLOSED = "thread_closed"
    PARTICIPANT_ADDED = "participant_added"
    PARTICIPANT_REMOVED = "participant_removed"
    MESSAGE = "message"
    UPSTREAM_ERROR = "upstream_error"
    DIRECT_MESSAGE = "direct_message"
    DELIVERY = "delivery"
    WAKE = "wake"
    PULSE = "pulse"
    ROUTINE = "routine"
    COORDINATION = "coordination"
    ALERT = "alert"
    BANK_CREATED = "bank_created"
    BANK_CHANGED = "bank_changed"
    BANK_DELETED = "bank_deleted"
    BLOCK = "block"
    FORGOTTEN = "forgotten"
    PASS = "pass"
    DREAM = "dream"
    PASSES_PAUSED = "passes_paused"
    PASSES_RESUMED = "passes_resumed"
    OPERATION_PAUSED = "operation_paused"
    ANSWERS_FELL_BACK = "answers_fell_back"
    ANSWERS_TRUSTED = "answers_trusted"


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    number: int = 0
    """Position in the log, ascending in commit order; 0 until stored."""
    type: EventType
    at: datetime
    session: str | None = None
    agent: str | None = None
    data: Mapping[str, object] = field(default_factory=dict[str, object])
    """Other data as JSON values; never a secret or a prompt."""
