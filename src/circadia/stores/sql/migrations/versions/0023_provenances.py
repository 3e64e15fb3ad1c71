"""Provenances: whose word recent texts are, for all servers on the database.

Revision 0023, after 0022.
"""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "provenances",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), sa.Identity(), nullable=False),
        sa.Column("scope", sa.String(), nullable=False),
        sa.Column("speaker", sa.String(), nullable=False),
        sa.Column("trust", sa.String(), nullable=True),
        sa.Column("bank", sa.String(), nullable=True),
        sa.Column("messages", sa.JSON(), nullable=False),
        sa.Column("fingerprints", sa.LargeBinary(), nullable=False),
        sa.Column("whole", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("number"),
        sqlite_autoincrement=True,
    )
    op.create_index("provenances_scope", "provenances", ["scope", "number"])
    op.create_index("provenances_expiry", "provenances", ["expires_at"])
