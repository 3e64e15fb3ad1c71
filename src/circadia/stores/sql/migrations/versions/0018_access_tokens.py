"""Tokens of people, and the codes of sign-in links that were used.

Revision 0018, after 0017.
"""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "access_tokens",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("role", sa.String, nullable=False),
        sa.Column("token_hash", sa.String, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("created_by", sa.String, nullable=False),
    )
    op.create_index("access_tokens_hash", "access_tokens", ["token_hash"], unique=True)
    op.create_table(
        "used_links",
        sa.Column("code_hash", sa.String, primary_key=True),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
    )
