"""Indexes for pages of pulses in a state, of mentions, and of a template's banks.

Revision 0030, after 0029.
"""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    is_mention = sa.text("mentioned")
    op.create_index(
        "deliveries_mentioned",
        "deliveries",
        ["agent_id", "state", "number"],
        sqlite_where=is_mention,
        postgresql_where=is_mention,
    )
    op.create_index("pulses_status", "pulses", ["status", "created_at", "id"])
    op.create_index("banks_of_template", "banks", ["template", "name"])
