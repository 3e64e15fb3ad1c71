"""No search is kept ready.

Revision 0035, after 0034.
"""

from alembic import op

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_table("views")
