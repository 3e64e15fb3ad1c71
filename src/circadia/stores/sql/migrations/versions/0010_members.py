"""Members of the cluster, and which of them leads.

Revision 0010, after 0009.
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the tables."""
    op.create_table(
        "members",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("role", sa.String, nullable=False),
        sa.Column("version", sa.String, nullable=False),
        sa.Column("host", sa.String, nullable=False),
        sa.Column("address", sa.String, nullable=False),
        sa.Column("token_check", sa.String, nullable=False),
        sa.Column("started_at", sa.BigInteger, nullable=False),
        sa.Column("lease_until", sa.BigInteger, nullable=False),
        sa.Column("holds", sa.Integer, nullable=False),
        sa.Column("running", sa.Integer, nullable=False),
    )
    op.create_table(
        "leads",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("member_id", sa.String, nullable=False),
        sa.Column("lease_until", sa.BigInteger, nullable=False),
    )
