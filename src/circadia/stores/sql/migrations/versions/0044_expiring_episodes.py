"""An episode may have a date on which it expires.

Revision 0044, after 0042.
"""

import sqlalchemy as sa
from alembic import op

revision = "0044"
down_revision = "0042"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("episodes", sa.Column("expires_at", sa.BigInteger))
    only = sa.text("expires_at IS NOT NULL")
    op.create_index("episodes_expires_at", "episodes", ["expires_at"], sqlite_where=only, postgresql_where=only)
