"""Sessions, agents, threads, messages and their deliveries, events, calls, conversations.

Revision 0001, the first.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

_SQLITE = (
    """
    CREATE TRIGGER deliveries_added AFTER INSERT ON deliveries BEGIN
        INSERT INTO delivery_counts (agent_id, state, number) VALUES (NEW.agent_id, NEW.state, 1)
            ON CONFLICT (agent_id, state) DO UPDATE SET number = number + 1;
    END
    """,
    """
    CREATE TRIGGER deliveries_removed AFTER DELETE ON deliveries BEGIN
        UPDATE delivery_counts SET number = number - 1 WHERE agent_id = OLD.agent_id AND state = OLD.state;
    END
    """,
    """
    CREATE TRIGGER deliveries_moved AFTER UPDATE OF state ON deliveries WHEN OLD.state <> NEW.state BEGIN
        UPDATE delivery_counts SET number = number - 1 WHERE agent_id = OLD.agent_id AND state = OLD.state;
        INSERT INTO delivery_counts (agent_id, state, number) VALUES (NEW.agent_id, NEW.state, 1)
            ON CONFLICT (agent_id, state) DO UPDATE SET number = number + 1;
    END
    """,
    "CREATE VIRTUAL TABLE message_words USING fts5(words, detail = none, columnsize = 0, tokenize = 'ascii')",
)
_POSTGRESQL = (
    """
    CREATE FUNCTION circadia_count_deliveries() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP <> 'INSERT' THEN
            UPDATE delivery_counts SET number = number - 1 WHERE agent_id = OLD.agent_id AND state = OLD.state;
        END IF;
        IF TG_OP <> 'DELETE' THEN
            INSERT INTO delivery_counts (agent_id, state, number) VALUES (NEW.agent_id, NEW.state, 1)
                ON CONFLICT (agent_id, state) DO UPDATE SET number = delivery_counts.number + 1;
        END IF;
        RETURN NULL;
    END $$
    """,
    """
    CREATE TRIGGER deliveries_counted AFTER INSERT OR DELETE ON deliveries
        FOR EACH ROW EXECUTE FUNCTION circadia_count_deliveries()
    """,
    """
    CREATE TRIGGER deliveries_moved AFTER UPDATE OF state ON deliveries
        FOR EACH ROW WHEN (OLD.state <> NEW.state) EXECUTE FUNCTION circadia_count_deliveries()
    """,
    "CREATE TABLE message_words (number BIGINT PRIMARY KEY, words TSVECTOR NOT NULL)",
    "CREATE INDEX message_words_words ON message_words USING gin (words) WITH (fastupdate = off)",
)


def upgrade() -> None:
    """Create the tables, the triggers that keep the counts of deliveries, and the index of words."""
    _sessions()
    _agents()
    _threads()
    _participants()
    _messages()
    _deliveries()
    _delivery_counts()
    _events()
    for statement in _SQLITE if op.get_bind().dialect.name == "sqlite" else _POSTGRESQL:
        op.execute(statement)


def _sessions() -> None:
    op.create_table(
        "sessions",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("closed_at", sa.BigInteger),
        sa.Column("touched_at", sa.BigInteger, nullable=False),
        sa.Column("stalled", sa.Boolean, nullable=False),
    )
    op.create_index("sessions_name", "sessions", ["name"])
    op.create_index("sessions_open_name", "sessions", ["name"], unique=True, **_where("status = 'open'"))


def _agents() -> None:
    op.create_table(
        "agents",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("session_id", sa.String, sa.ForeignKey("sessions.id"), nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("token_hash", sa.String, nullable=False),
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.Column("asleep", sa.Boolean, nullable=False),
        sa.Column("generation", sa.BigInteger, nullable=False),
        sa.Column("since", sa.BigInteger, nullable=False),
        sa.Column("cause", sa.String, nullable=False),
        sa.Column("actor", sa.String, nullable=False),
        sa.Column("sleep_events", sa.JSON, nullable=False),
        sa.Column("wake_events", sa.JSON, nullable=False),
        sa.Column("policy", sa.JSON, nullable=False),
        sa.Column("coordination", sa.JSON, nullable=False, server_default=sa.text("'{}'")),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("deleted_at", sa.BigInteger),
    )
    op.create_index("agents_name", "agents", ["session_id", "name"], unique=True, **_where("deleted_at IS NULL"))
    op.create_index("agents_token", "agents", ["token_hash"], unique=True, **_where("deleted_at IS NULL"))


def _threads() -> None:
    op.create_table(
        "threads",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("session_id", sa.String, sa.ForeignKey("sessions.id"), nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("created_by", sa.String, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("closed_at", sa.BigInteger),
        sa.Column("summary", sa.Text),
    )
    op.create_index("threads_name", "threads", ["session_id", "name"])
    op.create_index("threads_session", "threads", ["session_id", "created_at"])


def _participants() -> None:
    op.create_table(
        "participants",
        sa.Column("agent_id", sa.String, sa.ForeignKey("agents.id"), primary_key=True),
        sa.Column("thread_id", sa.String, sa.ForeignKey("threads.id"), primary_key=True),
        sa.Column("active", sa.Boolean, nullable=False),
        sa.Column("added_at", sa.BigInteger, nullable=False),
    )
    op.create_index("participants_thread", "participants", ["thread_id"])


def _messages() -> None:
    op.create_table(
        "messages",
        sa.Column("number", _NUMBER, sa.Identity(), primary_key=True),
        sa.Column("id", sa.String, nullable=False, unique=True),
        sa.Column("thread_id", sa.String, sa.ForeignKey("threads.id"), nullable=False),
        sa.Column("session_id", sa.String, sa.ForeignKey("sessions.id"), nullable=False),
        sa.Column("sender_id", sa.String, sa.ForeignKey("agents.id")),
        sa.Column("sender", sa.String, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("mentions", sa.JSON, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("type", sa.String, nullable=False, server_default=sa.text("'info'")),
        sa.Column("priority", sa.Integer, nullable=False, server_default=sa.text("1")),
        sa.Column("reply_to", sa.String),
        sa.Column("key", sa.String),
        sa.Column("root_id", sa.String),
        sa.Column("parent_id", sa.String),
        sa.Column("depth", sa.Integer, nullable=False, server_default=sa.text("0")),
        sqlite_autoincrement=True,
    )
    op.create_index("messages_answers", "messages", ["reply_to"], **_where("reply_to IS NOT NULL"))
    op.create_index("messages_at", "messages", ["at"])
    op.create_index("messages_key", "messages", ["key"], unique=True)
    op.create_index("messages_root", "messages", ["root_id"])
    op.create_index("messages_sender", "messages", ["sender_id", "number"])
    op.create_index("messages_thread", "messages", ["thread_id", "number"])


def _deliveries() -> None:
    op.create_table(
        "deliveries",
        sa.Column("agent_id", sa.String, sa.ForeignKey("agents.id"), primary_key=True),
        sa.Column("message_id", sa.String, sa.ForeignKey("messages.id"), primary_key=True),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("mentioned", sa.Boolean, nullable=False),
        sa.Column("leased_until", sa.BigInteger),
        sa.Column("priority", sa.Integer, nullable=False, server_default=sa.text("1")),
        sa.Column("pulse_id", sa.String),
        sa.Column("seen_at", sa.BigInteger),
        sa.Column("ended_at", sa.BigInteger),
        sa.Column("snoozed", sa.Boolean, nullable=False, server_default=sa.text("false")),
    )
    op.create_index("deliveries_handled", "deliveries", ["ended_at"], **_where("state = 'handled'"))
    op.create_index("deliveries_leased", "deliveries", ["leased_until"], **_where("state = 'leased'"))
    op.create_index("deliveries_message", "deliveries", ["message_id"])
    op.create_index("deliveries_pulse", "deliveries", ["pulse_id"], **_where("pulse_id IS NOT NULL"))
    op.create_index("deliveries_state", "deliveries", ["agent_id", "state", "number"])
    op.create_index("deliveries_urgent", "deliveries", ["agent_id", "state", "priority", "number"])


def _delivery_counts() -> None:
    op.create_table(
        "delivery_counts",
        sa.Column("agent_id", sa.String, primary_key=True),
        sa.Column("state", sa.String, primary_key=True),
        sa.Column("number", sa.BigInteger, nullable=False),
    )


def _events() -> None:
    op.create_table(
        "events",
        sa.Column("number", _NUMBER, sa.Identity(), primary_key=True),
        sa.Column("type", sa.String, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("session", sa.String),
        sa.Column("agent", sa.String),
        sa.Column("data", sa.JSON, nullable=False),
        sqlite_autoincrement=True,
    )


def _where(condition: str) -> dict[str, Any]:
    return {"sqlite_where": sa.text(condition), "postgresql_where": sa.text(condition)}
