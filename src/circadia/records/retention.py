"""Kinds of rows that are deleted after a retention time."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class RetentionKind(StrEnum):
    EVENTS = "events"
    CALLS = "calls"
    """They leave sums of each day."""
    CALL_TEXTS = "call_texts"
    USER_SUMS = "user_sums"
    """Daily sums by end user."""
    SUMS = "sums"
    """All other daily sums."""
    WAKES = "wakes"
    PULSES = "pulses"
    APPROVALS = "approvals"
    CONVERSATIONS = "conversations"
    PROVIDER_IDS = "provider_ids"
    ALERTS = "alerts"
    HOOK_DELIVERIES = "hook_deliveries"
    SPANS = "spans"
    SPAN_SUMS = "span_sums"
    ALERT_HISTORY = "alert_history"
    DELIVERIES = "deliveries"
    """Deliveries to agents that were deleted."""
    MESSAGES = "messages"
    THREADS = "threads"
    AGENTS = "agents"
    SESSIONS = "sessions"
    PASSES = "passes"
    SLEEP_ANSWERS = "sleep_answers"
    """The answers alone; the calls stay."""
    SLEEP_CALLS = "sleep_calls"
    BENEFITS = "benefits"
    DREAM_JOBS = "dream_jobs"
    ANSWERS = "answers"
    ANSWER_USES = "answer_uses"
    ANSWER_FRAMES = "answer_frames"
    ANSWER_VERDICTS = "answer_verdicts"
    ANSWER_DAYS = "answer_days"
    FORGOTTEN_EPISODES = "forgotten_episodes"
    """What agents have forgotten for their end users."""
    NOTES = "notes"
    BLOCKS = "blocks"


@dataclass(frozen=True, kw_only=True, slots=True)
class RetentionPage:
    """What a look at some of the oldest rows has come to."""

    deleted: int
    last: datetime | None = None
    """The next page begins here, if a row was looked at."""
    is_full: bool = False
    """Whether more rows may be due."""
