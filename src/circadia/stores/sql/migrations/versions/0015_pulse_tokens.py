"""Pulses: the index of tokens has the pulses that have one, and no longer all that are open.

Revision 0015, after 0014. With it, PostgreSQL finds an agent's open pulses by their own index from the first one on.
"""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the index anew."""
    some = sa.text("token_hash IS NOT NULL")
    op.drop_index("pulses_token", "pulses")
    op.create_index("pulses_token", "pulses", ["token_hash"], sqlite_where=some, postgresql_where=some)
