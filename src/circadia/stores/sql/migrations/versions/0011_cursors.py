"""How far readers of the event log came, such as the Redis bridge.

Revision 0011, after 0010.
"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "cursors", sa.Column("name", sa.String, primary_key=True), sa.Column("number", sa.BigInteger, nullable=False)
    )
