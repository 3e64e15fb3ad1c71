"""How many database connections each member may open.

Revision 0017, after 0016.
"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("members", sa.Column("connections", sa.Integer, nullable=False, server_default="0"))
