"""Wakes: the longest pulse that a request asks for, kept while it waits.

Revision 0006, after 0005.
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column("wakes", sa.Column("timeout_seconds", sa.Double()))
