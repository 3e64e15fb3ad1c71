"""A note has the time from which it holds no more.

Revision 0042, after 0040.
"""

import sqlalchemy as sa
from alembic import op

revision = "0042"
down_revision = "0040"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("notes", sa.Column("valid_to", sa.BigInteger))
