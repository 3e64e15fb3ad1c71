"""Wakes: coordination of agents, more of messages and deliveries, wake requests, pulses, routines.

Revision 0002, after 0001.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the columns and the tables."""
    op.add_column("agents", sa.Column("coordination", sa.JSON(), nullable=False, server_default=sa.text("'{}'")))
    _messages()
    _deliveries()
    _wakes()
    _pulses()
    _routines()


def _messages() -> None:
    for column in (
        sa.Column("type", sa.String(), nullable=False, server_default=sa.text("'info'")),
        sa.Column("priority", sa.Integer(), nullable=False, server_default=sa.text("1")),
        sa.Column("reply_to", sa.String(), nullable=True),
        sa.Column("key", sa.String(), nullable=True),
        sa.Column("root_id", sa.String(), nullable=True),
        sa.Column("parent_id", sa.String(), nullable=True),
        sa.Column("depth", sa.Integer(), nullable=False, server_default=sa.text("0")),
    ):
        op.add_column("messages", column)
    op.create_index("messages_key", "messages", ["key"], unique=True)
    op.create_index("messages_sender", "messages", ["sender_id", "number"])
    op.create_index("messages_root", "messages", ["root_id"])


def _deliveries() -> None:
    for column in (
        sa.Column("priority", sa.Integer(), nullable=False, server_default=sa.text("1")),
        sa.Column("pulse_id", sa.String(), nullable=True),
        sa.Column("seen_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
    ):
        op.add_column("deliveries", column)
    op.create_index("deliveries_message", "deliveries", ["message_id"])
    op.create_index(
        "deliveries_pulse",
        "deliveries",
        ["pulse_id"],
        sqlite_where=sa.text("pulse_id IS NOT NULL"),
        postgresql_where=sa.text("pulse_id IS NOT NULL"),
    )


def _wakes() -> None:
    op.create_table(
        "wakes",
        sa.Column("number", _NUMBER, sa.Identity(always=False), nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("agent_id", sa.String(), nullable=False),
        sa.Column("agent", sa.String(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("sender_id", sa.String(), nullable=True),
        sa.Column("sender", sa.String(), nullable=False),
        sa.Column("sender_pulse", sa.String(), nullable=True),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("message_id", sa.String(), nullable=True),
        sa.Column("routine", sa.String(), nullable=True),
        sa.Column("decision", sa.String(), nullable=False),
        sa.Column("rule", sa.String(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("not_before", sa.BigInteger(), nullable=True),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("decided_at", sa.BigInteger(), nullable=False),
        sa.Column("charge", sa.String(), nullable=False),
        sa.Column("pulse_id", sa.String(), nullable=True),
        sa.Column("root_id", sa.String(), nullable=False),
        sa.Column("parent_id", sa.String(), nullable=True),
        sa.Column("depth", sa.Integer(), nullable=False),
        sa.Column("key", sa.String(), nullable=True),
        sa.Column("overridden_by", sa.String(), nullable=True),
        sa.Column("trace", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("number"),
        sa.UniqueConstraint("id"),
        sqlite_autoincrement=True,
    )
    _wake_indexes()


def _wake_indexes() -> None:
    op.create_index("wakes_agent", "wakes", ["agent_id", "at"])
    op.create_index("wakes_asked", "wakes", ["sender_id", "at"])
    op.create_index(
        "wakes_counted",
        "wakes",
        ["agent_id", "decided_at"],
        sqlite_where=sa.text("charge IN ('reserved', 'charged')"),
        postgresql_where=sa.text("charge IN ('reserved', 'charged')"),
    )
    op.create_index(
        "wakes_deferred",
        "wakes",
        ["not_before"],
        sqlite_where=sa.text("decision = 'deferred'"),
        postgresql_where=sa.text("decision = 'deferred'"),
    )
    op.create_index(
        "wakes_deferred_agent",
        "wakes",
        ["agent_id"],
        sqlite_where=sa.text("decision = 'deferred'"),
        postgresql_where=sa.text("decision = 'deferred'"),
    )
    op.create_index("wakes_key", "wakes", ["key"], unique=True)
    op.create_index("wakes_pulse", "wakes", ["pulse_id"])
    op.create_index("wakes_root", "wakes", ["root_id"])


def _pulses() -> None:
    op.create_table(
        "pulses",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("agent_id", sa.String(), nullable=False),
        sa.Column("agent", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("launcher", sa.String(), nullable=False),
        sa.Column("wake_id", sa.String(), nullable=True),
        sa.Column("by", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("routine", sa.String(), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("owner", sa.String(), nullable=True),
        sa.Column("lease_until", sa.BigInteger(), nullable=True),
        sa.Column("not_before", sa.BigInteger(), nullable=True),
        sa.Column("prompted_at", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("run_seconds", sa.Double, nullable=False),
        sa.Column("timeout_seconds", sa.Double, nullable=True),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("token_hash", sa.String(), nullable=True),
        sa.Column("root_id", sa.String(), nullable=False),
        sa.Column("depth", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("pulses_agent", "pulses", ["agent_id", "created_at"])
    op.create_index(
        "pulses_open",
        "pulses",
        ["agent_id"],
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.create_index("pulses_root", "pulses", ["root_id"])
    op.create_index(
        "pulses_token",
        "pulses",
        ["token_hash"],
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )


def _routines() -> None:
    op.create_table(
        "routines",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("agent_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("next_at", sa.BigInteger(), nullable=True),
        sa.Column("deferred_from", sa.BigInteger(), nullable=True),
        sa.Column("last_at", sa.BigInteger(), nullable=True),
        sa.Column("skips", sa.Integer(), nullable=False),
        sa.Column("missed", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("routines_name", "routines", ["agent_id", "name"], unique=True)
    op.create_index(
        "routines_due",
        "routines",
        ["next_at"],
        sqlite_where=sa.text("enabled"),
        postgresql_where=sa.text("enabled"),
    )
