"""Indexes by which a call finds the newest of its agent's conversations that begin with the same words.

Revision 0022, after 0021.
"""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for column in ("head", "handle"):
        is_set = sa.text(f"{column} <> ''")
        op.create_index(
            f"conversations_by_{column}",
            "conversations",
            ["agent_id", column, "at"],
            sqlite_where=is_set,
            postgresql_where=is_set,
        )
    for name in ("conversations_head", "conversations_handle", "conversations_at"):
        op.drop_index(name, "conversations")
