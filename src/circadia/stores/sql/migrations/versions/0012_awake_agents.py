"""An index of the agents that are awake, for the look for sessions whose agents all sleep.

Revision 0012, after 0011.
"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    where = sa.text("deleted_at IS NULL AND NOT asleep")
    op.create_index("agents_awake", "agents", ["session_id"], sqlite_where=where, postgresql_where=where)
