"""An agent's row says what wakes it next.

Revision 0033, after 0032.
"""

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None

_SOONEST = """
    SELECT {} FROM (
      SELECT next_at AS at, 'routine ' || name AS who FROM routines
        WHERE routines.agent_id = agents.id AND routines.enabled AND next_at IS NOT NULL
      UNION ALL
      SELECT not_before, 'deferred wake by ' || sender FROM wakes
        WHERE wakes.agent_id = agents.id AND wakes.decision = 'deferred' AND not_before IS NOT NULL
    ) AS soonest ORDER BY at, who LIMIT 1
"""


def upgrade() -> None:
    op.add_column("agents", sa.Column("next_at", sa.BigInteger))
    op.add_column("agents", sa.Column("next_by", sa.String))
    op.execute(
        f"UPDATE agents SET next_at = ({_SOONEST.format('at')}), next_by = ({_SOONEST.format('who')}) WHERE id IN ("  # noqa: S608 - no value
        " SELECT agent_id FROM routines WHERE routines.enabled AND next_at IS NOT NULL"
        " UNION SELECT agent_id FROM wakes WHERE wakes.decision = 'deferred')"
    )
