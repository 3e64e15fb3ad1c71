"""Indexes by which the oldest rows of each table are found and deleted.

Revision 0028, after 0027.
"""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None

_INDEXES = (
    ("agents_session", "agents", ["session_id"], None),
    ("messages_session", "messages", ["session_id"], None),
    ("sessions_closed", "sessions", ["closed_at"], "closed_at IS NOT NULL"),
    ("agents_deleted", "agents", ["deleted_at"], "deleted_at IS NOT NULL"),
    ("threads_closed", "threads", ["closed_at"], "closed_at IS NOT NULL"),
    ("alerts_told", "alerts", ["told_at"], None),
    ("dream_jobs_ended", "dream_jobs", ["ended_at"], "ended_at IS NOT NULL"),
    ("passes_ended", "passes", ["ended_at"], None),
    ("sleep_calls_kept", "sleep_calls", ["at"], "error = ''"),
    ("answers_expiring", "answers", ["expires_at"], "dropped = ''"),
    ("answer_days_day", "answer_days", ["day"], None),
    ("episodes_at", "episodes", ["bank_id", "at"], None),
    ("notes_retired_at", "notes", ["retired_at"], "retired_at IS NOT NULL"),
    ("blocks_at", "blocks", ["at"], None),
    ("views_asked", "views", ["asked_at"], None),
)


def upgrade() -> None:
    for name, table, columns, condition in _INDEXES:
        where = None if condition is None else sa.text(condition)
        op.create_index(name, table, columns, sqlite_where=where, postgresql_where=where)
    op.create_index(
        "banks_expiring",
        "banks",
        ["name"],
        sqlite_where=sa.text("json_extract(policy, '$.keep_days') IS NOT NULL"),
        postgresql_where=sa.text("(policy ->> 'keep_days') IS NOT NULL"),
    )
