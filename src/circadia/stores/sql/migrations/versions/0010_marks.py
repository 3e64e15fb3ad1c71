"""Marks of passes: how many demotions, and which edit of a block, they know of; and passes over a whole bank.

Revision 0010, after 0009. What went stale before counts as known.
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns."""
    op.add_column("banks", sa.Column("edited_at", sa.BigInteger()))
    op.add_column("passes", sa.Column("full", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("sleep_states", sa.Column("edited_at", sa.BigInteger()))
    op.add_column("sleep_states", sa.Column("demotions", sa.Integer(), nullable=False, server_default=sa.text("0")))
    known = "SELECT demotions FROM banks WHERE banks.id = sleep_states.bank_id"
    op.execute(f"UPDATE sleep_states SET demotions = ({known})")  # noqa: S608
