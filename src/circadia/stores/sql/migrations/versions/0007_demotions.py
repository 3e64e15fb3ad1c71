"""Demotions: an index of a bank learns which of its rows count otherwise since it looked last.

Revision 0007, after 0006.
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the count, and which of them was an episode's last."""
    op.add_column("banks", sa.Column("demotions", sa.Integer(), nullable=False, server_default=sa.text("0")))
    op.add_column("episodes", sa.Column("demotion", sa.Integer()))
    op.create_index("episodes_demotion", "episodes", ["bank_id", "demotion"])
