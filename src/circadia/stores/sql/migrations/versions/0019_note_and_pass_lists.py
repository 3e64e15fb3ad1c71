"""Indexes for the lists of a bank's live or retired notes, and of the newest passes over all banks.

Revision 0019, after 0018.
"""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name, condition in (("notes_live", "retired_at IS NULL"), ("notes_retired", "retired_at IS NOT NULL")):
        where = sa.text(condition)
        op.create_index(name, "notes", ["bank_id", "number"], sqlite_where=where, postgresql_where=where)
    op.create_index("passes_created", "passes", ["created_at", "id"])
    op.create_index("passes_status", "passes", ["status", "created_at", "id"])
