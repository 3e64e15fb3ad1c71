"""A call records why it stopped, what it got of memory and ready answers, and, where settings keep it, its text.

Revision 0049, after 0048.
"""

import sqlalchemy as sa
from alembic import op

revision = "0049"
down_revision = "0048"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("calls", sa.Column("stop_reason", sa.String))
    op.add_column("calls", sa.Column("retries", sa.Integer, nullable=False, server_default="0"))
    op.add_column("calls", sa.Column("lookup", sa.String))
    op.add_column("calls", sa.Column("answer_id", sa.String))
    op.add_column("calls", sa.Column("memory", sa.String, nullable=False, server_default=""))
    op.create_index("calls_named", "calls", ["agent", "at"])
    for name, columns, condition in (
        ("calls_end_user", ["end_user", "at"], "end_user IS NOT NULL"),
        ("calls_failed", ["at"], "status = 'failed'"),
        ("calls_unusual", ["tier", "at"], "tier <> 'hot'"),
    ):
        where = sa.text(condition)
        op.create_index(name, "calls", columns, sqlite_where=where, postgresql_where=where)
    op.create_table(
        "call_texts",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("request", sa.Text, nullable=False),
        sa.Column("response", sa.Text, nullable=False),
    )
    op.create_index("call_texts_at", "call_texts", ["at"])
    is_named = sa.text("status <> 'direct'")
    op.create_index("threads_sought", "threads", ["name"], sqlite_where=is_named, postgresql_where=is_named)
