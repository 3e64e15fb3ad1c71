"""What is kept long enough can be found and deleted; old calls of the ledger are summed up by day.

Revision 0024, after 0023.
"""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column and the indexes."""
    op.add_column("calls", sa.Column("merged", sa.BigInteger()))
    op.create_index("provider_ids_at", "provider_ids", ["at"])
    op.create_index("conversations_seen", "conversations", ["at"])
    op.create_index("messages_at", "messages", ["at"])
    op.create_index("wakes_decided", "wakes", ["decided_at"])
    op.create_index("pulses_over", "pulses", ["ended_at"])
