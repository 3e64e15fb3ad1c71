"""Removals: which rows went with a generation of a bank, so that indexes take them out instead of being made anew.

Revision 0025, after 0024.
"""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "removals",
        sa.Column("bank_id", sa.String(), sa.ForeignKey("banks.id"), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("numbers", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("bank_id", "generation"),
    )
