"""Indexes for what admission counts of a day.

Revision 0003, after 0002.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_COUNTED = "charge IN ('reserved', 'charged')"


def upgrade() -> None:
    """Add the indexes."""
    op.create_index(
        "wakes_day", "wakes", ["decided_at"], sqlite_where=sa.text(_COUNTED), postgresql_where=sa.text(_COUNTED)
    )
    op.create_index("pulses_ended", "pulses", ["agent_id", "ended_at"])
