"""Approvals of calls by people.

Revision 0046, after 0045.
"""

import sqlalchemy as sa
from alembic import op

revision = "0046"
down_revision = "0045"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "approvals",
        sa.Column("id", sa.String, primary_key=True),
        *(
            sa.Column(name, sa.String, nullable=False)
            for name in ("agent_id", "session", "agent", "door", "target", "what", "rule", "model")
        ),
        sa.Column("nanousd", sa.BigInteger),
        sa.Column("digest", sa.String, nullable=False),
        sa.Column("preview", sa.Text, nullable=False),
        sa.Column("cut", sa.Boolean, nullable=False),
        sa.Column("valid_seconds", sa.Double, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("requested_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.Column("decided_by", sa.String),
        sa.Column("decided_at", sa.BigInteger),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("closed_at", sa.BigInteger),
    )
    is_open, is_closed = sa.text("closed_at IS NULL"), sa.text("closed_at IS NOT NULL")
    op.create_index(
        "approvals_open", "approvals", ["agent_id", "digest"], sqlite_where=is_open, postgresql_where=is_open
    )
    op.create_index("approvals_due", "approvals", ["expires_at", "id"], sqlite_where=is_open, postgresql_where=is_open)
    op.create_index("approvals_closed", "approvals", ["closed_at"], sqlite_where=is_closed, postgresql_where=is_closed)
    op.create_index("approvals_status", "approvals", ["status", "id"])
    op.create_index("approvals_agent", "approvals", ["agent_id", "id"])
