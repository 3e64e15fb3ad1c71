"""Episodes have no time of their last use, which only the tuning of importance read.

Revision 0036, after 0035.
"""

from alembic import op

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_column("episodes", "used_at")
