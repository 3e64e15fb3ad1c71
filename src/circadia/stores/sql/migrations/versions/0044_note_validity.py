"""A note has the time from which it holds no more.

Revision 0044, after 0043.
"""

import sqlalchemy as sa
from alembic import op

revision = "0044"
down_revision = "0043"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("notes", sa.Column("valid_to", sa.BigInteger))
