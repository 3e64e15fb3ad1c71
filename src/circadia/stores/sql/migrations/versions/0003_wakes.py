"""Wake requests, pulses and routines.

Revision 0003, after 0002.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Create the tables."""
    _wakes()
    _pulses()
    _routines()


def _wakes() -> None:
    op.create_table(
        "wakes",
        sa.Column("number", _NUMBER, sa.Identity(), primary_key=True),
        sa.Column("id", sa.String, nullable=False, unique=True),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("agent_id", sa.String, nullable=False),
        sa.Column("agent", sa.String, nullable=False),
        sa.Column("source", sa.String, nullable=False),
        sa.Column("sender_id", sa.String),
        sa.Column("sender", sa.String, nullable=False),
        sa.Column("sender_pulse", sa.String),
        sa.Column("reason", sa.String, nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("message_id", sa.String),
        sa.Column("routine", sa.String),
        sa.Column("decision", sa.String, nullable=False),
        sa.Column("rule", sa.String),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("not_before", sa.BigInteger),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("decided_at", sa.BigInteger, nullable=False),
        sa.Column("charge", sa.String, nullable=False),
        sa.Column("pulse_id", sa.String),
        sa.Column("root_id", sa.String, nullable=False),
        sa.Column("parent_id", sa.String),
        sa.Column("depth", sa.Integer, nullable=False),
        sa.Column("key", sa.String),
        sa.Column("overridden_by", sa.String),
        sa.Column("timeout_seconds", sa.Double),
        sa.Column("trace", sa.JSON, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("wakes_agent", "wakes", ["agent_id", "at"])
    op.create_index("wakes_asked", "wakes", ["sender_id", "at"])
    op.create_index("wakes_counted", "wakes", ["agent_id", "decided_at"], **_where("charge IN ('reserved', 'charged')"))
    op.create_index("wakes_day", "wakes", ["decided_at"], **_where("charge IN ('reserved', 'charged')"))
    op.create_index("wakes_decided", "wakes", ["decided_at"])
    op.create_index("wakes_deferred", "wakes", ["not_before"], **_where("decision = 'deferred'"))
    op.create_index("wakes_deferred_agent", "wakes", ["agent_id"], **_where("decision = 'deferred'"))
    op.create_index("wakes_expiring", "wakes", ["expires_at"], **_where("decision = 'deferred'"))
    op.create_index("wakes_key", "wakes", ["key"], unique=True)
    op.create_index("wakes_message", "wakes", ["message_id"], **_where("message_id IS NOT NULL"))
    op.create_index("wakes_pulse", "wakes", ["pulse_id"])
    op.create_index("wakes_root", "wakes", ["root_id"])
    op.create_index("wakes_waiting", "wakes", ["rule"], **_where("decision = 'deferred'"))


def _pulses() -> None:
    op.create_table(
        "pulses",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("agent_id", sa.String, nullable=False),
        sa.Column("agent", sa.String, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("launcher", sa.String, nullable=False),
        sa.Column("wake_id", sa.String),
        sa.Column("by", sa.String, nullable=False),
        sa.Column("reason", sa.String, nullable=False),
        sa.Column("routine", sa.String),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("owner", sa.String),
        sa.Column("lease_until", sa.BigInteger),
        sa.Column("not_before", sa.BigInteger),
        sa.Column("prompted_at", sa.BigInteger),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("started_at", sa.BigInteger),
        sa.Column("ended_at", sa.BigInteger),
        sa.Column("run_seconds", sa.Double, nullable=False),
        sa.Column("timeout_seconds", sa.Double),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("token_hash", sa.String),
        sa.Column("root_id", sa.String, nullable=False),
        sa.Column("depth", sa.Integer, nullable=False),
    )
    op.create_index("pulses_agent", "pulses", ["agent_id", "created_at"])
    op.create_index("pulses_ended", "pulses", ["agent_id", "ended_at"])
    op.create_index("pulses_open", "pulses", ["agent_id"], **_where("ended_at IS NULL"))
    op.create_index("pulses_over", "pulses", ["ended_at"])
    op.create_index("pulses_root", "pulses", ["root_id"])
    op.create_index("pulses_token", "pulses", ["token_hash"], **_where("token_hash IS NOT NULL"))


def _routines() -> None:
    op.create_table(
        "routines",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("agent_id", sa.String, sa.ForeignKey("agents.id"), nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("spec", sa.JSON, nullable=False),
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.Column("next_at", sa.BigInteger),
        sa.Column("deferred_from", sa.BigInteger),
        sa.Column("last_at", sa.BigInteger),
        sa.Column("skips", sa.Integer, nullable=False),
        sa.Column("missed", sa.Integer, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
    op.create_index("routines_due", "routines", ["next_at"], **_where("enabled"))
    op.create_index("routines_name", "routines", ["agent_id", "name"], unique=True)


def _where(condition: str) -> dict[str, Any]:
    return {"sqlite_where": sa.text(condition), "postgresql_where": sa.text(condition)}
