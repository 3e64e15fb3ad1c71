"""Up to which rows a judge has found a ready answer still right.

Revision 0027, after 0026.
"""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column("answers", sa.Column("settled", sa.JSON()))
