"""Passes, their changes and model calls, and how far they have come in each bank.

Revision 0005, after 0004.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    _passes()
    _pass_changes()
    _sleep_states()
    _sleep_calls()
    _benefits()


def _passes() -> None:
    op.create_table(
        "passes",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("bank_id", sa.String, sa.ForeignKey("banks.id"), nullable=False),
        sa.Column("trigger", sa.String, nullable=False),
        sa.Column("by", sa.String, nullable=False),
        sa.Column("instructions", sa.Text, nullable=False),
        sa.Column("operations", sa.JSON, nullable=False),
        sa.Column("dry_run", sa.Boolean, nullable=False),
        sa.Column("review", sa.Boolean, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("owner", sa.String),
        sa.Column("lease_until", sa.BigInteger),
        sa.Column("not_before", sa.BigInteger),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("started_at", sa.BigInteger),
        sa.Column("ended_at", sa.BigInteger),
        sa.Column("run_seconds", sa.Double, nullable=False),
        sa.Column("after", sa.BigInteger, nullable=False),
        sa.Column("upto", sa.BigInteger, nullable=False),
        sa.Column("generation_before", sa.Integer),
        sa.Column("generation_after", sa.Integer),
        sa.Column("counts", sa.JSON, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("full", sa.Boolean, nullable=False, server_default=sa.false()),
    )
    op.create_index("passes_bank", "passes", ["bank_id", "id"])
    op.create_index("passes_open", "passes", ["bank_id"], unique=True, **_where("ended_at IS NULL"))
    op.create_index("passes_started", "passes", ["started_at"])


def _pass_changes() -> None:
    op.create_table(
        "pass_changes",
        sa.Column("pass_id", sa.String, sa.ForeignKey("passes.id"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("operation", sa.String, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("target", sa.String, nullable=False),
        sa.Column("before", sa.JSON),
        sa.Column("after", sa.JSON),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
    )
    op.create_index("pass_changes_target", "pass_changes", ["target"])


def _sleep_states() -> None:
    op.create_table(
        "sleep_states",
        sa.Column("bank_id", sa.String, sa.ForeignKey("banks.id"), primary_key=True),
        sa.Column("cursor", sa.BigInteger, nullable=False),
        sa.Column("leftovers", sa.JSON, nullable=False),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("not_before", sa.BigInteger),
        sa.Column("paused_by", sa.String),
        sa.Column("succeeded_at", sa.BigInteger),
        sa.Column("scheduled_at", sa.BigInteger),
        sa.Column("gate", sa.String, nullable=False),
        sa.Column("gate_detail", sa.Text, nullable=False),
        sa.Column("gate_at", sa.BigInteger),
        sa.Column("demotions", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("edited_at", sa.BigInteger),
        sa.Column("pauses", sa.JSON, nullable=False, server_default=sa.text("'[]'")),
    )


def _sleep_calls() -> None:
    op.create_table(
        "sleep_calls",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("pass_id", sa.String, nullable=False),
        sa.Column("bank_id", sa.String, nullable=False),
        sa.Column("operation", sa.String, nullable=False),
        sa.Column("key", sa.String, nullable=False),
        sa.Column("answer", sa.Text),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("lease_until", sa.BigInteger),
    )
    op.create_index("sleep_calls_at", "sleep_calls", ["at"])
    op.create_index("sleep_calls_bank", "sleep_calls", ["bank_id", "at"])
    op.create_index("sleep_calls_key", "sleep_calls", ["bank_id", "key"])
    op.create_index("sleep_calls_pass", "sleep_calls", ["pass_id", "id"])


def _benefits() -> None:
    op.create_table(
        "benefits",
        sa.Column("bank_id", sa.String, sa.ForeignKey("banks.id"), primary_key=True),
        sa.Column("operation", sa.String, primary_key=True),
        sa.Column("day", sa.Integer, primary_key=True),
        sa.Column("uses", sa.BigInteger, nullable=False),
        sa.Column("saved_tokens", sa.BigInteger, nullable=False),
        sa.Column("saved_seconds", sa.Double, nullable=False),
        sa.Column("saved_nanousd", sa.BigInteger, nullable=False),
        sa.Column("unpriced_tokens", sa.BigInteger, nullable=False),
    )
    op.create_index("benefits_day", "benefits", ["day"])


def _where(condition: str) -> dict[str, Any]:
    return {"sqlite_where": sa.text(condition), "postgresql_where": sa.text(condition)}
