"""Ready answers that only their own conversation may find.

Revision 0028, after 0027.
"""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column("answers", sa.Column("conversation", sa.String()))
