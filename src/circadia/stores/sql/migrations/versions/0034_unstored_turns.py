"""A bank counts the turns whose answer is no episode.

Revision 0034, after 0033.
"""

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("sleep_states", sa.Column("unstored_turns", sa.Integer, nullable=False, server_default="0"))
