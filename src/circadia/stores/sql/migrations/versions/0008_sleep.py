"""Sleep-time work: passes, what they change, how far they have come, and their model calls.

Revision 0008, after 0007.
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the tables."""
    op.create_table(
        "passes",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("bank_id", sa.String(), nullable=False),
        sa.Column("trigger", sa.String(), nullable=False),
        sa.Column("by", sa.String(), nullable=False),
        sa.Column("instructions", sa.Text(), nullable=False),
        sa.Column("operations", sa.JSON(), nullable=False),
        sa.Column("dry_run", sa.Boolean(), nullable=False),
        sa.Column("review", sa.Boolean(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("owner", sa.String(), nullable=True),
        sa.Column("lease_until", sa.BigInteger(), nullable=True),
        sa.Column("not_before", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("run_seconds", sa.Double, nullable=False),
        sa.Column("after", sa.BigInteger(), nullable=False),
        sa.Column("upto", sa.BigInteger(), nullable=False),
        sa.Column("generation_before", sa.Integer(), nullable=True),
        sa.Column("generation_after", sa.Integer(), nullable=True),
        sa.Column("counts", sa.JSON(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["bank_id"], ["banks.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    is_open = sa.text("ended_at IS NULL")
    op.create_index("passes_bank", "passes", ["bank_id", "id"])
    op.create_index("passes_open", "passes", ["bank_id"], unique=True, sqlite_where=is_open, postgresql_where=is_open)
    op.create_index("passes_started", "passes", ["started_at"])
    _changes()
    _states()
    _calls()


def _changes() -> None:
    op.create_table(
        "pass_changes",
        sa.Column("pass_id", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("operation", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("target", sa.String(), nullable=False),
        sa.Column("before", sa.JSON(), nullable=True),
        sa.Column("after", sa.JSON(), nullable=True),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["pass_id"], ["passes.id"]),
        sa.PrimaryKeyConstraint("pass_id", "number"),
    )
    op.create_index("pass_changes_target", "pass_changes", ["target"])


def _states() -> None:
    op.create_table(
        "sleep_states",
        sa.Column("bank_id", sa.String(), nullable=False),
        sa.Column("cursor", sa.BigInteger(), nullable=False),
        sa.Column("leftovers", sa.JSON(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("not_before", sa.BigInteger(), nullable=True),
        sa.Column("paused_by", sa.String(), nullable=True),
        sa.Column("succeeded_at", sa.BigInteger(), nullable=True),
        sa.Column("scheduled_at", sa.BigInteger(), nullable=True),
        sa.Column("gate", sa.String(), nullable=False),
        sa.Column("gate_detail", sa.Text(), nullable=False),
        sa.Column("gate_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["bank_id"], ["banks.id"]),
        sa.PrimaryKeyConstraint("bank_id"),
    )


def _calls() -> None:
    op.create_table(
        "sleep_calls",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("pass_id", sa.String(), nullable=False),
        sa.Column("bank_id", sa.String(), nullable=False),
        sa.Column("operation", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("sleep_calls_key", "sleep_calls", ["bank_id", "key"])
    op.create_index("sleep_calls_pass", "sleep_calls", ["pass_id", "id"])
    op.create_index("sleep_calls_at", "sleep_calls", ["at"])
