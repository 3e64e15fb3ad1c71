"""An episode keeps where its passages begin and end; longer texts stored before are split in the background.

Revision 0037, after 0036.
"""

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("episodes", sa.Column("passages", sa.LargeBinary))
