"""Wakes: which deferred requests are to expire, and what each waits for.

Revision 0014, after 0013. With it, a look at what is due costs nothing for all that still waits.
"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the indexes."""
    deferred = sa.text("decision = 'deferred'")
    for name, column in (("wakes_expiring", "expires_at"), ("wakes_waiting", "rule")):
        op.create_index(name, "wakes", [column], sqlite_where=deferred, postgresql_where=deferred)
