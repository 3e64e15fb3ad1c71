"""An index of the episodes that are demoted: forgetting one takes back what rested on it.

Revision 0023, after 0022.
"""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    is_demoted = sa.text("CAST(stale AS TEXT) != '[]'")
    op.create_index("episodes_stale", "episodes", ["bank_id"], sqlite_where=is_demoted, postgresql_where=is_demoted)
