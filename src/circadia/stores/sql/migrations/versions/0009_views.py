"""Ready views: what is often asked, and a count of vectors that tells whether it still holds.

Revision 0009, after 0008.
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the count and the table."""
    op.add_column("banks", sa.Column("vectors", sa.Integer(), nullable=False, server_default=sa.text("0")))
    op.create_table(
        "views",
        sa.Column("bank_id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("asked", sa.JSON(), nullable=False),
        sa.Column("limit", sa.Integer(), nullable=False),
        sa.Column("days", sa.JSON(), nullable=False),
        sa.Column("asked_at", sa.BigInteger(), nullable=True),
        sa.Column("stamp", sa.Text(), nullable=True),
        sa.Column("depth", sa.Integer(), nullable=False),
        sa.Column("hits", sa.JSON(), nullable=False),
        sa.Column("made_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["bank_id"], ["banks.id"]),
        sa.PrimaryKeyConstraint("bank_id", "kind", "key"),
    )
