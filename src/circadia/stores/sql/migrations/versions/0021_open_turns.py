"""Servers of one database see each other's turns that are under way, and questions of passes that are being asked.

Revision 0021, after 0020.
"""

import sqlalchemy as sa
from alembic import op

from circadia.stores.sql.schema import Instant

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table and the column."""
    op.create_table(
        "open_turns",
        sa.Column("owner", sa.String(), primary_key=True),
        sa.Column("id", sa.BigInteger(), primary_key=True),
        sa.Column("bank", sa.String(), nullable=False),
        sa.Column("end_user", sa.String(), nullable=False),
        sa.Column("at", Instant(), nullable=False),
        sa.Column("lease_until", Instant(), nullable=False),
    )
    op.create_index("open_turns_bank", "open_turns", ["bank", "end_user"])
    op.add_column("sleep_calls", sa.Column("lease_until", Instant()))
