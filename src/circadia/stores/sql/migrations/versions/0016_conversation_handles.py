"""Conversations are found by head and handle.

Revision 0016, after 0015.
"""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the handle of the last answer. A head was a handle unless it was a hash of 32 letters."""
    op.add_column("conversations", sa.Column("handle", sa.String, nullable=False, server_default=""))
    op.execute("UPDATE conversations SET handle = head WHERE length(head) <> 32")
    op.create_index("conversations_head", "conversations", ["agent_id", "head"])
    op.create_index("conversations_handle", "conversations", ["agent_id", "handle"])
