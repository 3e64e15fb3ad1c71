"""The tables of sleep-time work for both dialects; see `schema.py` for the rest."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Identity,
    Index,
    Integer,
    String,
    Table,
    Text,
    false,
    text,
)

from circadia.stores.sql.schema import NUMBER, Instant, metadata, only

passes = Table(
    "passes",
    metadata,
    Column("id", String, primary_key=True),
    Column("bank_id", String, ForeignKey("banks.id"), nullable=False),
    Column("trigger", String, nullable=False),
    Column("by", String, nullable=False),
    Column("instructions", Text, nullable=False),
    Column("operations", JSON, nullable=False),
    Column("dry_run", Boolean, nullable=False),
    Column("review", Boolean, nullable=False),
    Column("status", String, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("owner", String),
    Column("lease_until", Instant),
    Column("not_before", Instant),
    Column("created_at", Instant, nullable=False),
    Column("started_at", Instant),
    Column("ended_at", Instant),
    Column("run_seconds", Double, nullable=False),
    Column("after", BigInteger, nullable=False),
    Column("upto", BigInteger, nullable=False),
    Column("generation_before", Integer),
    Column("generation_after", Integer),
    Column("counts", JSON, nullable=False),
    Column("detail", Text, nullable=False),
    Column("full", Boolean, nullable=False, server_default=false()),
    Column("budget_tokens", BigInteger),
)
Index("passes_bank", passes.c.bank_id, passes.c.id)
Index("passes_open", passes.c.bank_id, unique=True, **only("ended_at IS NULL"))
Index("passes_ended", passes.c.ended_at)  # of open ones as well
Index("passes_started", passes.c.started_at)
Index("passes_created", passes.c.created_at, passes.c.id)
Index("passes_status", passes.c.status, passes.c.created_at, passes.c.id)

pass_changes = Table(
    "pass_changes",
    metadata,
    Column("pass_id", String, ForeignKey("passes.id"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("operation", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("target", String, nullable=False),
    Column("before", JSON),
    Column("after", JSON),
    Column("state", String, nullable=False),
    Column("why", Text, nullable=False),
    Column("at", Instant, nullable=False),
)
Index("pass_changes_target", pass_changes.c.target)
Index("pass_changes_staged", pass_changes.c.pass_id, pass_changes.c.number, **only("state = 'staged'"))

sleep_states = Table(
    "sleep_states",
    metadata,
    Column("bank_id", String, ForeignKey("banks.id"), primary_key=True),
    Column("cursor", BigInteger, nullable=False),
    Column("leftovers", JSON, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("not_before", Instant),
    Column("paused_by", String),
    Column("succeeded_at", Instant),
    Column("scheduled_at", Instant),
    Column("gate", String, nullable=False),
    Column("gate_detail", Text, nullable=False),
    Column("gate_at", Instant),
    Column("demotions", Integer, nullable=False, server_default=text("0")),
    Column("edited_at", Instant),
    Column("pauses", JSON, nullable=False, server_default=text("'[]'")),  # unused; the last release writes it
    Column("unstored_turns", Integer, nullable=False, server_default=text("0")),
)
Index("sleep_states_failing", sleep_states.c.bank_id, **only("failures > 0"))

# A row for each change that a decision on passes has not seen: of a bank, or of the agents that are bound to banks.
# Rows are only added and deleted, so that blocks which change the same bank do not wait for each other.
due_checks = Table(
    "due_checks",
    metadata,
    Column("number", NUMBER, Identity(), primary_key=True),
    Column("bank_id", String),
    Column("bound_name", String),  # of a bank or a template, for all its banks
    Column("if_asleep", Boolean, nullable=False, server_default=false()),
    sqlite_autoincrement=True,
)

# When a bank is checked again if nothing happens before.
next_checks = Table(
    "next_checks",
    metadata,
    Column("bank_id", String, primary_key=True),
    Column("at", Instant),
    Column("has_backlog", Boolean, nullable=False),
)
Index("next_checks_at", next_checks.c.at, **only("at IS NOT NULL"))
Index("next_checks_backlog", next_checks.c.bank_id, **only("has_backlog"))

sleep_calls = Table(
    "sleep_calls",
    metadata,
    Column("id", String, primary_key=True),
    Column("pass_id", String, nullable=False),
    Column("bank_id", String, nullable=False),
    Column("operation", String, nullable=False),
    Column("key", String, nullable=False),
    Column("answer", Text),
    Column("error", Text, nullable=False),
    Column("at", Instant, nullable=False),
    Column("lease_until", Instant),
    Column("thinking_nanousd", BigInteger, nullable=False, server_default="0"),
    Column("own_budget", Boolean, nullable=False, server_default=false()),
    Column("batch", String),
    Column("batch_id", String),
    Column("used", Boolean, nullable=False, server_default=false()),
)
Index("sleep_calls_batch", sleep_calls.c.at, **only("batch IS NOT NULL"))
Index("sleep_calls_key", sleep_calls.c.bank_id, sleep_calls.c.key)
Index("sleep_calls_pass", sleep_calls.c.pass_id, sleep_calls.c.id)
Index("sleep_calls_at", sleep_calls.c.at)
Index("sleep_calls_kept", sleep_calls.c.at, **only("error = ''"))
Index("sleep_calls_bank", sleep_calls.c.bank_id, sleep_calls.c.at)

benefits = Table(
    "benefits",
    metadata,
    Column("bank_id", String, ForeignKey("banks.id"), primary_key=True),
    Column("operation", String, primary_key=True),
    Column("day", Integer, primary_key=True),
    Column("uses", BigInteger, nullable=False),
    Column("saved_tokens", BigInteger, nullable=False),
    Column("saved_seconds", Double, nullable=False),
    Column("saved_nanousd", BigInteger, nullable=False),
    Column("unpriced_tokens", BigInteger, nullable=False),
)
Index("benefits_day", benefits.c.day)
