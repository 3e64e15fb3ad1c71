"""Alarms and routines that agents set for themselves, their waits for named events, and suspended pulses.

Revision 0045, after 0044.
"""

import sqlalchemy as sa
from alembic import op

revision = "0045"
down_revision = "0044"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("agents", sa.Column("wake_on", sa.String))
    op.add_column("routines", sa.Column("own", sa.Boolean))
    op.add_column("routines", sa.Column("ends_on_wake", sa.Boolean))
    own = sa.text("own")
    op.create_index("routines_own", "routines", ["id"], sqlite_where=own, postgresql_where=own)
    suspended = sa.text("status = 'suspended'")
    op.create_index("pulses_suspended", "pulses", ["agent_id"], sqlite_where=suspended, postgresql_where=suspended)
    op.create_table(
        "event_waits",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("agent_id", sa.String, sa.ForeignKey("agents.id"), nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("filter", sa.JSON, nullable=False),
        sa.Column("generation", sa.Integer),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("until", sa.BigInteger, nullable=False),
    )
    op.create_index("event_waits_name", "event_waits", ["name", "id"])
    op.create_index("event_waits_agent", "event_waits", ["agent_id"])
    op.create_index("event_waits_until", "event_waits", ["until"])
