"""Places of held calls by gateway and agent, for limits that hold over all gateways.

Revision 0014, after 0013.
"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "hold_places",
        sa.Column("member_id", sa.String, primary_key=True),
        sa.Column("agent_id", sa.String, primary_key=True),
        sa.Column("holds", sa.Integer, nullable=False),
    )
    op.create_index("hold_places_agent", "hold_places", ["agent_id"])
