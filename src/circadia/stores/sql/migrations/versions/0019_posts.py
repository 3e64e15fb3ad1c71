"""Alerts: what is to be posted of them, so that no server that dies takes it along.

Revision 0019, after 0018.
"""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column("alerts", sa.Column("post", sa.JSON()))
