"""Named events are kept for an hour, for agents that begin to wait after them.

Revision 0051, after 0050.
"""

import sqlalchemy as sa
from alembic import op

revision = "0051"
down_revision = "0050"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "named_events",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("key", sa.String),
        sa.Column("sender_id", sa.String),
        sa.Column("root_id", sa.String),
        sa.Column("parent_id", sa.String),
        sa.Column("depth", sa.Integer, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
    )
    op.create_index("named_events_name", "named_events", ["name", "at", "id"])
    op.create_index("named_events_at", "named_events", ["at"])
