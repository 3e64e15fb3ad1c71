"""An episode may have a date on which it expires.

Revision 0042, after 0041.
"""

import sqlalchemy as sa
from alembic import op

revision = "0042"
down_revision = "0041"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("episodes", sa.Column("expires_at", sa.BigInteger))
    only = sa.text("expires_at IS NOT NULL")
    op.create_index("episodes_expires_at", "episodes", ["expires_at"], sqlite_where=only, postgresql_where=only)
