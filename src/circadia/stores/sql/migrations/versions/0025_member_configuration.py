"""The configuration that each member runs.

Revision 0025, after 0024.
"""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("members", sa.Column("config_check", sa.String))
