"""Sums of the fleet's time beside those of its sessions, and an index of agents' states, which adds up present ones.

Revision 0052, after 0051.
"""

import sqlalchemy as sa
from alembic import op

revision = "0052"
down_revision = "0051"
branch_labels = None
depends_on = None

_FIGURES = ("asleep", "awake", "held", "pulse", "pulses", "failed", "wakes", "refusals")


def upgrade() -> None:
    live = sa.text("deleted_at IS NULL")
    columns = ["session_id", "asleep", "since"]
    op.create_index("agents_states", "agents", columns, sqlite_where=live, postgresql_where=live)
    rows = sa.table("span_sums", sa.column("session"), sa.column("at"), *map(sa.column, _FIGURES))
    fleet = (
        sa.select(sa.literal(""), rows.c.at, *(sa.func.sum(rows.c[name]) for name in _FIGURES))
        .where(rows.c.session != "")
        .group_by(rows.c.at)
    )
    op.execute(rows.insert().from_select(["session", "at", *_FIGURES], fleet))
