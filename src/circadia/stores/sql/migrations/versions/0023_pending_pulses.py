"""An index of the pulses that wait for a worker with their launcher.

Revision 0023, after 0022.
"""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    where = sa.text("status = 'pending'")
    op.create_index("pulses_pending", "pulses", ["launcher", "created_at"], sqlite_where=where, postgresql_where=where)
