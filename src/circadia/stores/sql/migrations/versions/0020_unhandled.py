"""An index of the deliveries that nobody has handled, for the list of them over all agents.

Revision 0020, after 0019.
"""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    where = sa.text("state <> 'handled'")
    op.create_index(
        "deliveries_unhandled", "deliveries", ["state", "number"], sqlite_where=where, postgresql_where=where
    )
