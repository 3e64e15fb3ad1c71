"""Dreams that were asked for.

Revision 0021, after 0020.
"""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "dream_jobs",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("source", sa.String, nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("mode", sa.String, nullable=False),
        sa.Column("instructions", sa.Text, nullable=False),
        sa.Column("by", sa.String, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("ended_at", sa.BigInteger),
        sa.Column("output", sa.String, nullable=False),
        sa.Column("pass_id", sa.String, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("report", sa.JSON, nullable=False),
    )
    is_open = sa.text("ended_at IS NULL")
    op.create_index(
        "dream_jobs_open", "dream_jobs", ["source", "name"], unique=True, sqlite_where=is_open, postgresql_where=is_open
    )
    op.create_index("dream_jobs_name", "dream_jobs", ["source", "name", "id"])
