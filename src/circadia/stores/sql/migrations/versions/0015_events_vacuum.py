"""A vacuum of the events table that does not wait for a fifth of its rows.

In PostgreSQL each event leaves a dead index entry where the next look for events without a number passes.

Revision 0015, after 0014.
"""

from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE events SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200000)")
