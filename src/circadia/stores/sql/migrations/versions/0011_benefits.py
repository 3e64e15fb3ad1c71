"""What operations bring: counts by bank, operation and day, and which operations of a bank are paused.

Revision 0011, after 0010.
"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table and the column, and what finds a bank's model calls by their time."""
    op.add_column("sleep_states", sa.Column("pauses", sa.JSON(), nullable=False, server_default=sa.text("'[]'")))
    op.create_index("sleep_calls_bank", "sleep_calls", ["bank_id", "at"])
    op.create_table(
        "benefits",
        sa.Column("bank_id", sa.String(), nullable=False),
        sa.Column("operation", sa.String(), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("uses", sa.BigInteger(), nullable=False),
        sa.Column("saved_tokens", sa.BigInteger(), nullable=False),
        sa.Column("saved_seconds", sa.Double, nullable=False),
        sa.Column("saved_nanousd", sa.BigInteger(), nullable=False),
        sa.Column("unpriced_tokens", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["bank_id"], ["banks.id"]),
        sa.PrimaryKeyConstraint("bank_id", "operation", "day"),
    )
    op.create_index("benefits_day", "benefits", ["day"])
