"""What is deleted once it was kept long enough."""

from enum import StrEnum


class RetentionKind(StrEnum):
    """A kind of rows with a time to keep."""

    EVENTS = "events"
    CALLS = "calls"
    """Of these the sums of each day stay for ever."""
    WAKES = "wakes"
    PULSES = "pulses"
    CONVERSATIONS = "conversations"
    MESSAGES = "messages"
    PROVIDER_IDS = "provider_ids"
