"""The tables of both dialects. `migrations/` creates them, and a test compares the two.

Times are microseconds since 1970 in UTC, so that SQL can compare and add them. Rows of the ledger and the event log
(calls, events, provider ids, conversations) name their agent without a foreign key, since they outlive it.
"""

from datetime import UTC, date, datetime, timedelta
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Double,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    text,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Instant(TypeDecorator[datetime]):
    """An aware datetime, stored as microseconds since 1970 in UTC."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        """Return the microseconds. Raises ValueError if the value has no time zone."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone")
        return (value - _EPOCH) // _MICROSECOND

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:
        return None if value is None else _EPOCH + timedelta(microseconds=value)


def day_of(number: int) -> date:
    """Return the date of a number of days since 1970, as stored."""
    return _EPOCH.date() + timedelta(days=number)


def number_of(day: date) -> int:
    """Return the number of days since 1970, as stored."""
    return (day - _EPOCH.date()).days


NUMBER = BigInteger().with_variant(Integer(), "sqlite")
"""An auto-incremented key; SQLite supports that for INTEGER only."""

metadata = MetaData()


def only(condition: str) -> dict[str, Any]:
    """Return the arguments of a partial index with this condition in both dialects."""
    return {"sqlite_where": text(condition), "postgresql_where": text(condition)}


sessions = Table(
    "sessions",
    metadata,
    Column("id", String, primary_key=True),
    Column("name", String, nullable=False),
    Column("status", String, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("closed_at", Instant),
    Column("touched_at", Instant, nullable=False),
    Column("stalled", Boolean, nullable=False),
)
Index("sessions_open_name", sessions.c.name, unique=True, **only("status = 'open'"))
Index("sessions_name", sessions.c.name)
Index("sessions_open", sessions.c.id, **only("status = 'open'"))
Index("sessions_closed", sessions.c.closed_at, **only("closed_at IS NOT NULL"))

agents = Table(
    "agents",
    metadata,
    Column("id", String, primary_key=True),
    Column("session_id", String, ForeignKey("sessions.id"), nullable=False),
    Column("name", String, nullable=False),
    Column("token_hash", String, nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("asleep", Boolean, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("since", Instant, nullable=False),
    Column("cause", String, nullable=False),
    Column("actor", String, nullable=False),
    Column("sleep_events", JSON, nullable=False),
    Column("wake_events", JSON, nullable=False),
    Column("policy", JSON, nullable=False),
    Column("coordination", JSON, nullable=False, server_default=text("'{}'")),
    Column("description", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("deleted_at", Instant),
    Column("next_at", Instant),
    Column("next_by", String),
    Column("wake_on", String),
)
Index("agents_name", agents.c.session_id, agents.c.name, unique=True, **only("deleted_at IS NULL"))
Index("agents_past_name", agents.c.name, agents.c.created_at)
Index("agents_session", agents.c.session_id)  # for the foreign key, when a session is deleted
Index("agents_states", agents.c.session_id, agents.c.asleep, agents.c.since, **only("deleted_at IS NULL"))
Index("agents_deleted", agents.c.deleted_at, **only("deleted_at IS NOT NULL"))
Index("agents_awake", agents.c.session_id, **only("deleted_at IS NULL AND NOT asleep"))
Index("agents_token", agents.c.token_hash, unique=True, **only("deleted_at IS NULL"))
HAS_BUDGET = " OR ".join(f"policy ->> 'max_{what}_per_day' IS NOT NULL" for what in ("calls", "tokens", "usd"))
Index("agents_budgeted", agents.c.id, **only(f"deleted_at IS NULL AND ({HAS_BUDGET})"))
_BANK = text("(policy ->> 'bank')")
Index("agents_bank", _BANK, agents.c.created_at, agents.c.id, **only("deleted_at IS NULL AND enabled"))
Index("agents_bank_awake", _BANK, agents.c.id, **only("deleted_at IS NULL AND enabled AND NOT asleep"))

threads = Table(
    "threads",
    metadata,
    Column("id", String, primary_key=True),
    Column("session_id", String, ForeignKey("sessions.id"), nullable=False),
    Column("name", String, nullable=False),
    Column("status", String, nullable=False),
    Column("created_by", String, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("closed_at", Instant),
    Column("summary", Text),
)
Index("threads_named", threads.c.session_id, threads.c.id, **only("status <> 'direct'"))
Index("threads_open", threads.c.session_id, threads.c.id, **only("status = 'open'"))
Index("threads_closed", threads.c.closed_at, **only("closed_at IS NOT NULL"))
Index("threads_name", threads.c.session_id, threads.c.name)
Index("threads_sought", threads.c.name, **only("status <> 'direct'"))

participants = Table(
    "participants",
    metadata,
    Column("agent_id", String, ForeignKey("agents.id"), primary_key=True),
    Column("thread_id", String, ForeignKey("threads.id"), primary_key=True),
    Column("active", Boolean, nullable=False),
    Column("added_at", Instant, nullable=False),
)
Index("participants_thread", participants.c.thread_id)

messages = Table(
    "messages",
    metadata,
    Column("number", NUMBER, Identity(), primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("thread_id", String, ForeignKey("threads.id"), nullable=False),
    Column("session_id", String, ForeignKey("sessions.id"), nullable=False),
    Column("sender_id", String, ForeignKey("agents.id")),
    Column("sender", String, nullable=False),
    Column("content", Text, nullable=False),
    Column("mentions", JSON, nullable=False),
    Column("at", Instant, nullable=False),
    Column("type", String, nullable=False, server_default=text("'info'")),
    Column("priority", Integer, nullable=False, server_default=text("1")),
    Column("reply_to", String),
    Column("key", String),
    Column("root_id", String),
    Column("parent_id", String),
    Column("depth", Integer, nullable=False, server_default=text("0")),
    Column("indexed", Boolean, nullable=False, server_default=text("false")),
    sqlite_autoincrement=True,
)
Index("messages_unindexed", messages.c.number, **only("NOT indexed"))
Index("messages_key", messages.c.key, unique=True)
Index("messages_sender", messages.c.sender_id, messages.c.number)
Index("messages_root", messages.c.root_id)
Index("messages_answers", messages.c.reply_to, **only("reply_to IS NOT NULL"))
Index("messages_session", messages.c.session_id)  # for the foreign key, when a session is deleted
Index("messages_at", messages.c.at)
Index("messages_thread", messages.c.thread_id, messages.c.number)

deliveries = Table(
    "deliveries",
    metadata,
    Column("agent_id", String, ForeignKey("agents.id"), primary_key=True),
    Column("message_id", String, ForeignKey("messages.id"), primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("state", String, nullable=False),
    Column("mentioned", Boolean, nullable=False),
    Column("leased_until", Instant),
    Column("priority", Integer, nullable=False, server_default=text("1")),
    Column("pulse_id", String),
    Column("seen_at", Instant),
    Column("ended_at", Instant),
    Column("snoozed", Boolean, nullable=False, server_default=text("false")),
    Column("missed", Boolean, nullable=False, server_default=text("false")),
)
Index("deliveries_message", deliveries.c.message_id)
Index("deliveries_pulse", deliveries.c.pulse_id, **only("pulse_id IS NOT NULL"))
Index("deliveries_state", deliveries.c.agent_id, deliveries.c.state, deliveries.c.number)
Index("deliveries_urgent", deliveries.c.agent_id, deliveries.c.state, deliveries.c.priority, deliveries.c.number)
Index("deliveries_mentioned", deliveries.c.agent_id, deliveries.c.state, deliveries.c.number, **only("mentioned"))
Index("deliveries_handled", deliveries.c.ended_at, **only("state = 'handled'"))
Index("deliveries_unhandled", deliveries.c.state, deliveries.c.number, **only("state <> 'handled'"))
Index("deliveries_leased", deliveries.c.leased_until, **only("state = 'leased'"))

# Maintained by triggers on `deliveries`, so that an inbox is counted in one step whatever its size.
delivery_counts = Table(
    "delivery_counts",
    metadata,
    Column("agent_id", String, primary_key=True),
    Column("state", String, primary_key=True),
    Column("number", BigInteger, nullable=False),
)

events = Table(
    "events",
    metadata,
    Column("number", NUMBER, Identity(), primary_key=True),
    Column("type", String, nullable=False),
    Column("at", Instant, nullable=False),
    Column("session", String),
    Column("agent", String),
    Column("data", JSON, nullable=False),
    sqlite_autoincrement=True,
)
# Each ends with the number, so that a page is read in its order.
Index("events_session", events.c.session, events.c.number)
Index("events_agent", events.c.agent, events.c.number)
Index("events_type", events.c.type, events.c.number)
Index("events_of_agent", events.c.session, events.c.agent, events.c.type, events.c.number)

calls = Table(
    "calls",
    metadata,
    Column("id", String, primary_key=True),
    Column("at", Instant, nullable=False),
    Column("agent_id", String, nullable=False),
    Column("session", String, nullable=False),
    Column("agent", String, nullable=False),
    Column("tier", String, nullable=False),
    Column("upstream", String, nullable=False),
    Column("endpoint", String, nullable=False),
    Column("model", String, nullable=False),
    Column("status", String, nullable=False),
    Column("http_status", Integer),
    Column("streamed", Boolean, nullable=False),
    Column("input_tokens", BigInteger),
    Column("output_tokens", BigInteger),
    Column("cached_tokens", BigInteger),
    Column("reasoning_tokens", BigInteger),
    Column("reserved_tokens", BigInteger, nullable=False),
    Column("reserved_nanousd", BigInteger, nullable=False),
    Column("cost_nanousd", BigInteger),
    Column("held_seconds", Double, nullable=False),
    Column("first_token_seconds", Double),
    Column("total_seconds", Double),
    Column("conversation", String),
    Column("end_user", String),
    Column("turn", Boolean, nullable=False),
    Column("stop_reason", String),
    Column("retries", Integer, nullable=False, server_default="0"),
    Column("lookup", String),
    Column("answer_id", String),
    Column("memory", String, nullable=False, server_default=""),
)
Index("calls_agent", calls.c.agent_id, calls.c.at)
Index("calls_named", calls.c.agent, calls.c.at)
Index("calls_at", calls.c.at)
Index("calls_reserved", calls.c.agent_id, calls.c.at, **only("status = 'reserved'"))
Index("calls_conversation", calls.c.conversation, calls.c.at, **only("conversation IS NOT NULL"))
Index("calls_end_user", calls.c.end_user, calls.c.at, **only("end_user IS NOT NULL"))
Index("calls_failed", calls.c.at, **only("status = 'failed'"))
Index("calls_unusual", calls.c.tier, calls.c.at, **only("tier <> 'hot'"))

call_texts = Table(
    "call_texts",
    metadata,
    Column("id", String, primary_key=True),
    Column("at", Instant, nullable=False),
    Column("request", Text, nullable=False),
    Column("response", Text, nullable=False),
)
Index("call_texts_at", call_texts.c.at)

provider_ids = Table(
    "provider_ids",
    metadata,
    Column("upstream", String, primary_key=True),
    Column("provider_id", String, primary_key=True),
    Column("agent_id", String, nullable=False),
    Column("at", Instant, nullable=False),
)
Index("provider_ids_at", provider_ids.c.at)

conversations = Table(
    "conversations",
    metadata,
    Column("agent_id", String, primary_key=True),
    Column("id", String, primary_key=True),
    Column("end_user", String),
    Column("turns", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("head", String, nullable=False),
    Column("at", Instant, nullable=False),
    Column("handle", String, nullable=False, server_default=""),
    Column("additions", String, nullable=False, server_default=""),
)
# Each finds the newest of equal ones: many conversations of an agent may begin with the same words.
CONVERSATION_KEYS = [
    Index(
        f"conversations_by_{key.name}",
        *(conversations.c.agent_id, key, conversations.c.at),
        sqlite_where=key != "",
        postgresql_where=key != "",
    )
    for key in (conversations.c.head, conversations.c.handle)
]
Index("conversations_seen", conversations.c.at)

wakes = Table(
    "wakes",
    metadata,
    Column("number", NUMBER, Identity(), primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("at", Instant, nullable=False),
    Column("agent_id", String, nullable=False),
    Column("agent", String, nullable=False),
    Column("source", String, nullable=False),
    Column("sender_id", String),
    Column("sender", String, nullable=False),
    Column("sender_pulse", String),
    Column("reason", String, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("message_id", String),
    Column("routine", String),
    Column("decision", String, nullable=False),
    Column("rule", String),
    Column("detail", Text, nullable=False),
    Column("not_before", Instant),
    Column("expires_at", Instant),
    Column("decided_at", Instant, nullable=False),
    Column("charge", String, nullable=False),
    Column("pulse_id", String),
    Column("root_id", String, nullable=False),
    Column("parent_id", String),
    Column("depth", Integer, nullable=False),
    Column("key", String),
    Column("overridden_by", String),
    Column("timeout_seconds", Double),
    Column("trace", JSON, nullable=False),
    sqlite_autoincrement=True,
)
Index("wakes_at", wakes.c.at)
Index("wakes_decided", wakes.c.decided_at)
Index("wakes_key", wakes.c.key, unique=True)
Index("wakes_agent", wakes.c.agent_id, wakes.c.at)
Index("wakes_pulse", wakes.c.pulse_id)
Index("wakes_root", wakes.c.root_id)
Index("wakes_counted", wakes.c.agent_id, wakes.c.decided_at, **only("charge IN ('reserved', 'charged')"))
Index("wakes_refused", wakes.c.agent_id, wakes.c.decided_at, **only("decision = 'refused'"))
Index("wakes_message", wakes.c.message_id, **only("message_id IS NOT NULL"))
Index("wakes_asked", wakes.c.sender_id, wakes.c.at)
Index("wakes_day", wakes.c.decided_at, **only("charge IN ('reserved', 'charged')"))
Index("wakes_deferred", wakes.c.not_before, **only("decision = 'deferred'"))
Index("wakes_deferred_agent", wakes.c.agent_id, **only("decision = 'deferred'"))
Index("wakes_expiring", wakes.c.expires_at, **only("decision = 'deferred'"))
Index("wakes_waiting", wakes.c.rule, **only("decision = 'deferred'"))

pulses = Table(
    "pulses",
    metadata,
    Column("id", String, primary_key=True),
    Column("agent_id", String, nullable=False),
    Column("agent", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("status", String, nullable=False),
    Column("launcher", String, nullable=False),
    Column("wake_id", String),
    Column("by", String, nullable=False),
    Column("reason", String, nullable=False),
    Column("routine", String),
    Column("attempt", Integer, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("owner", String),
    Column("lease_until", Instant),
    Column("not_before", Instant),
    Column("prompted_at", Instant),
    Column("created_at", Instant, nullable=False),
    Column("started_at", Instant),
    Column("ended_at", Instant),
    Column("run_seconds", Double, nullable=False),
    Column("timeout_seconds", Double),
    Column("detail", Text, nullable=False),
    Column("token_hash", String),
    Column("root_id", String, nullable=False),
    Column("depth", Integer, nullable=False),
)
Index("pulses_over", pulses.c.ended_at)
Index("pulses_agent", pulses.c.agent_id, pulses.c.created_at)
Index("pulses_created", pulses.c.created_at, pulses.c.id)
Index("pulses_status", pulses.c.status, pulses.c.created_at, pulses.c.id)
Index("pulses_ended", pulses.c.agent_id, pulses.c.ended_at)
Index("pulses_root", pulses.c.root_id)
# What a worker claims: pulses of its own launchers, however many wait for others.
Index("pulses_pending", pulses.c.launcher, pulses.c.created_at, **only("status = 'pending'"))
Index("pulses_suspended", pulses.c.agent_id, **only("status = 'suspended'"))
Index("pulses_open", pulses.c.agent_id, **only("ended_at IS NULL"))
# Indexes other rows than `pulses_open`: without statistics PostgreSQL would confuse the two.
Index("pulses_token", pulses.c.token_hash, **only("token_hash IS NOT NULL"))

routines = Table(
    "routines",
    metadata,
    Column("id", String, primary_key=True),
    Column("agent_id", String, ForeignKey("agents.id"), nullable=False),
    Column("name", String, nullable=False),
    Column("spec", JSON, nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("next_at", Instant),
    Column("deferred_from", Instant),
    Column("last_at", Instant),
    Column("skips", Integer, nullable=False),
    Column("missed", Integer, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("own", Boolean),
    Column("ends_on_wake", Boolean),
)
Index("routines_own", routines.c.id, **only("own"))
Index("routines_name", routines.c.agent_id, routines.c.name, unique=True)
Index("routines_due", routines.c.next_at, **only("enabled"))

write_probe = Table(
    "write_probe", metadata, Column("id", Integer, primary_key=True), Column("filling", LargeBinary, nullable=False)
)
