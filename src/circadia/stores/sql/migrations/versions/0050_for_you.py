"""Alerts have a history, dreams tell who decided on them, and changes that wait have an index.

Revision 0050, after 0049.
"""

import sqlalchemy as sa
from alembic import op

revision = "0050"
down_revision = "0049"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "alert_history",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("cause", sa.String, nullable=False),
        sa.Column("session", sa.String),
        sa.Column("agent", sa.String),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("detail", sa.JSON, nullable=False),
        sa.Column("acknowledged_at", sa.BigInteger),
        sa.Column("acknowledged_by", sa.String),
    )
    op.create_index("alert_history_at", "alert_history", ["at"])
    op.create_index("alert_history_cause", "alert_history", ["cause", "id"])
    unanswered = sa.text("acknowledged_at IS NULL")
    op.create_index("alert_history_open", "alert_history", ["id"], sqlite_where=unanswered, postgresql_where=unanswered)
    op.add_column("dream_jobs", sa.Column("waits", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("dream_jobs", sa.Column("reviews", sa.JSON, nullable=False, server_default=sa.text("'[]'")))
    waits = sa.text("waits")
    op.create_index("dream_jobs_waits", "dream_jobs", ["id"], sqlite_where=waits, postgresql_where=waits)
    op.create_index("dream_jobs_entry", "dream_jobs", ["pass_id"])
    staged = sa.text("state = 'staged'")
    op.create_index(
        "pass_changes_staged", "pass_changes", ["pass_id", "number"], sqlite_where=staged, postgresql_where=staged
    )
