"""Deliveries that found their agent awake may wake it when it falls asleep.

Revision 0031, after 0030.
"""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("deliveries", sa.Column("missed", sa.Boolean, nullable=False, server_default=sa.text("false")))
