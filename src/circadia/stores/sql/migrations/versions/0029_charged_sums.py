"""What an agent's budgets count is summed by day; open reservations and the newest pulses have an index.

Revision 0029, after 0028.
"""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None

_KNOWN = "coalesce(input_tokens, output_tokens) IS NOT NULL"
_TOKENS = "coalesce(input_tokens, 0) + coalesce(output_tokens, 0)"


def upgrade() -> None:
    for name in ("charged_tokens", "charged_nanousd"):
        op.add_column("usage_days", sa.Column(name, sa.BigInteger, nullable=False, server_default="0"))
    # Budgets look at the current day alone.
    op.execute(
        f"""
        UPDATE usage_days SET charged_tokens = charged.tokens, charged_nanousd = charged.nanousd
        FROM (
          SELECT session, agent, at / 86400000000 AS day, tier, upstream, model,
            coalesce(end_user, '') <> '' AS has_user, conversation IS NOT NULL AS has_conversation,
            sum(CASE WHEN {_KNOWN} THEN {_TOKENS} ELSE reserved_tokens END) AS tokens,
            sum(coalesce(cost_nanousd, reserved_nanousd)) AS nanousd
          FROM calls
          WHERE status <> 'reserved' AND at >= (SELECT max(at) - 86400000000 FROM calls)
          GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
        ) AS charged
        WHERE usage_days.scope = 'agent' AND usage_days.session = charged.session
          AND usage_days.agent = charged.agent AND usage_days.day = charged.day AND usage_days.tier = charged.tier
          AND usage_days.upstream = charged.upstream AND usage_days.model = charged.model
          AND usage_days.has_user = charged.has_user AND usage_days.has_conversation = charged.has_conversation
        """  # noqa: S608 - own names
    )
    is_open = sa.text("status = 'reserved'")
    op.create_index("calls_reserved", "calls", ["agent_id", "at"], sqlite_where=is_open, postgresql_where=is_open)
    op.create_index("pulses_created", "pulses", ["created_at", "id"])
