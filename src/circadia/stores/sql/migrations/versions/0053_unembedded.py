"""Texts without a vector have an index of their own, which is empty once all are embedded.

Revision 0053, after 0052.
"""

import sqlalchemy as sa
from alembic import op

revision = "0053"
down_revision = "0052"
branch_labels = None
depends_on = None


def upgrade() -> None:
    waits = sa.text("embedder IS NULL")
    for table in ("episodes", "notes"):
        columns = ["number", "bank_id"]
        op.create_index(f"{table}_unembedded", table, columns, sqlite_where=waits, postgresql_where=waits)
        op.drop_index(f"{table}_embedder", table)
