"""Notes and episodes: when they were last handed to an agent.

Revision 0018, after 0017. Nobody knows which of the notes that are there were found before: each counts as found when
it was made.
"""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns."""
    for table in ("notes", "episodes"):
        op.add_column(table, sa.Column("used_at", sa.BigInteger()))
    op.execute("UPDATE notes SET used_at = created_at")
