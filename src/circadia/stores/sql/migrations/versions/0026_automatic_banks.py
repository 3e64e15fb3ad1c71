"""Banks that were made since an agent is bound to them.

Revision 0026, after 0025.
"""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column("banks", sa.Column("automatic", sa.Boolean(), nullable=False, server_default=sa.text("false")))
