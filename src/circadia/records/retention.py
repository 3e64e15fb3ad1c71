"""Kinds of rows that are deleted after a retention time."""

from enum import StrEnum


class RetentionKind(StrEnum):
    EVENTS = "events"
    CALLS = "calls"
    """Daily sums of calls are kept forever."""
    WAKES = "wakes"
    PULSES = "pulses"
    CONVERSATIONS = "conversations"
    MESSAGES = "messages"
    PROVIDER_IDS = "provider_ids"
