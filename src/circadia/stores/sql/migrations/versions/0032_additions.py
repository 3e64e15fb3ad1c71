"""A conversation keeps, as ids, what the gateway added to its turns.

Revision 0032, after 0031.
"""

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("conversations", sa.Column("additions", sa.String, nullable=False, server_default=""))
