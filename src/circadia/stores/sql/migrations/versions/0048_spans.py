"""Spans of agents' time that have ended, and their sums; indexes for what needs a person.

What was before has no spans: they begin at the upgrade.

Revision 0048, after 0047.
"""

import sqlalchemy as sa
from alembic import op

revision = "0048"
down_revision = "0047"
branch_labels = None
depends_on = None

_HAS_BUDGET = " OR ".join(f"policy ->> 'max_{what}_per_day' IS NOT NULL" for what in ("calls", "tokens", "usd"))
_FIGURES = ("asleep", "awake", "held", "pulse", "pulses", "failed", "wakes", "refusals")


def upgrade() -> None:
    op.create_table(
        "spans",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), sa.Identity(), primary_key=True),
        sa.Column("agent_id", sa.String, nullable=False),
        sa.Column("session", sa.String, nullable=False),
        sa.Column("agent", sa.String, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("started_at", sa.BigInteger, nullable=False),
        sa.Column("ended_at", sa.BigInteger, nullable=False),
        sa.Column("by", sa.String, nullable=False),
        sa.Column("reason", sa.String, nullable=False),
        sa.Column("outcome", sa.String, nullable=False),
        sa.Column("ref", sa.String, nullable=False),
        sa.Column("is_long", sa.Boolean, nullable=False),
        sa.Column("summed", sa.Boolean, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("spans_ended", "spans", ["ended_at"])
    for name, columns, only in (
        ("spans_short", ["agent_id", "ended_at", "number"], "NOT is_long"),
        ("spans_long", ["agent_id", "ended_at", "number"], "is_long"),
        ("spans_unsummed", ["number"], "NOT summed"),
    ):
        _create_partial_index(name, "spans", columns, only)
    op.create_table(
        "span_sums",
        sa.Column("session", sa.String, primary_key=True),
        sa.Column("at", sa.BigInteger, primary_key=True, autoincrement=False),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in _FIGURES),
    )
    op.create_index("span_sums_at", "span_sums", ["at"])
    _create_partial_index("agents_budgeted", "agents", ["id"], f"deleted_at IS NULL AND ({_HAS_BUDGET})")


def _create_partial_index(name: str, table: str, columns: list[str], only: str) -> None:
    op.create_index(name, table, columns, sqlite_where=sa.text(only), postgresql_where=sa.text(only))
