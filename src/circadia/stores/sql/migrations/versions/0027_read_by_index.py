"""Lists of events are read in the order of an index, and usage reports from the sums of whole days.

Revision 0027, after 0026.
"""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None

_EVENTS = {
    "events_session": ["session"],
    "events_agent": ["agent"],
    "events_type": ["type"],
    "events_of_agent": ["session", "agent", "type"],
}

_SCOPES = {
    "fleet": ("''", "''", "''", ""),
    "session": ("''", "session", "''", ""),
    "agent": ("''", "session", "agent", ""),
    "end_user": ("end_user", "session", "agent", " AND end_user <> ''"),
}
_SUMMED = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "cost_nanousd", "held_seconds")
_COUNTED = "coalesce(merged, 1)"
_KNOWN = "coalesce(input_tokens, output_tokens) IS NOT NULL"


def upgrade() -> None:
    for name, columns in _EVENTS.items():
        op.create_index(name, "events", [*columns, "number"])
    is_open = sa.text("status = 'open'")
    op.create_index("sessions_open", "sessions", ["id"], sqlite_where=is_open, postgresql_where=is_open)
    op.create_index("wakes_at", "wakes", ["at"])
    is_refused = sa.text("decision = 'refused'")
    op.create_index(
        "wakes_refused", "wakes", ["agent_id", "decided_at"], sqlite_where=is_refused, postgresql_where=is_refused
    )
    op.create_index("agents_past_name", "agents", ["name", "created_at"])
    for name, which in (("threads_named", "status <> 'direct'"), ("threads_open", "status = 'open'")):
        where = sa.text(which)
        op.create_index(name, "threads", ["session_id", "id"], sqlite_where=where, postgresql_where=where)
    op.drop_index("threads_session", "threads")
    _create_usage_days()
    op.drop_column("calls", "merged")


def _create_usage_days() -> None:
    key = sa.String().with_variant(sa.String(collation="C"), "postgresql")
    op.create_table(
        "usage_days",
        *(sa.Column(name, key, primary_key=True) for name in ("scope", "end_user", "session", "agent")),
        sa.Column("day", sa.Integer, primary_key=True, autoincrement=False),
        *(sa.Column(name, key, primary_key=True) for name in ("tier", "upstream", "model")),
        *(sa.Column(name, sa.Boolean, primary_key=True) for name in ("has_user", "has_conversation")),
        *(
            sa.Column(name, sa.BigInteger, nullable=False)
            for name in (
                "calls", "unknown", "failed", "unpriced", "input_tokens", "output_tokens", "cached_tokens",
                "reasoning_tokens", "cost_nanousd",
            )
        ),
        sa.Column("held_seconds", sa.Double, nullable=False),
        sqlite_with_rowid=False,
    )  # fmt: skip
    for scope, (end_user, session, agent, only) in _SCOPES.items():
        op.execute(
            f"""
            INSERT INTO usage_days
            SELECT '{scope}', {end_user}, {session}, {agent}, calls.at / 86400000000, tier, upstream, model,
              coalesce(end_user, '') <> '', conversation IS NOT NULL, sum({_COUNTED}),
              coalesce(sum({_COUNTED}) FILTER (WHERE NOT ({_KNOWN})), 0),
              coalesce(sum({_COUNTED}) FILTER (WHERE status = 'failed'), 0),
              coalesce(sum({_COUNTED}) FILTER (WHERE cost_nanousd IS NULL), 0),
              {", ".join(f"coalesce(sum({name}), 0)" for name in _SUMMED)}
            FROM calls WHERE status <> 'reserved'{only} GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
            """  # noqa: S608 - own names
        )
    op.execute("DELETE FROM calls WHERE merged IS NOT NULL")
    for name, columns, which in (
        ("usage_days_agent", ["agent", "session", "day"], "scope = 'agent'"),
        ("usage_days_old", ["day"], "scope = 'end_user'"),
        ("usage_days_older", ["day"], "scope <> 'end_user'"),
    ):
        op.create_index(name, "usage_days", columns, sqlite_where=sa.text(which), postgresql_where=sa.text(which))
    named = sa.text("conversation IS NOT NULL")
    op.create_index("calls_conversation", "calls", ["conversation", "at"], sqlite_where=named, postgresql_where=named)
