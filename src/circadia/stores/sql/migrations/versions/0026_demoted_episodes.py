"""An index of the episodes that are demoted: forgetting one takes back what rested on it.

Revision 0026, after 0025.
"""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    is_demoted = sa.text("CAST(stale AS TEXT) != '[]'")
    op.create_index("episodes_stale", "episodes", ["bank_id"], sqlite_where=is_demoted, postgresql_where=is_demoted)
