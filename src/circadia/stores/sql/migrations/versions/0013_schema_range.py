"""The oldest schema whose code works with the present one, and the newest schema that each member knows.

Revision 0013, after 0012.
"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("alembic_version", sa.Column("works_with", sa.String))
    op.add_column("members", sa.Column("schema", sa.String))
