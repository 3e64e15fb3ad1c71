"""What keeps sweeps short in a database of a million agents.

An index of the agents that are awake serves the look for sessions whose agents all sleep. In PostgreSQL each event
leaves a dead entry where the next look for events without a number passes; vacuum removes them, and must not wait for a
fifth of a large table.

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
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE events SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200000)")
