"""Counts of publications, retirements and vectors, which tell what still holds; and ready views of what is often asked.

Revision 0009, after 0008.
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the counts and the table."""
    op.add_column("banks", sa.Column("published", sa.Integer(), nullable=False, server_default=sa.text("0")))
    op.add_column("notes", sa.Column("demotion", sa.Integer()))
    op.create_index("notes_demotion", "notes", ["bank_id", "demotion"])
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
