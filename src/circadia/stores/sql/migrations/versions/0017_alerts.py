"""Alerts: what people have been alerted of, so that of several servers one tells.

Revision 0017, after 0016.
"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "alerts",
        sa.Column("cause", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("told_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("cause", "subject"),
    )
