"""Threads are found by name without a walk over all threads of their session.

Revision 0020, after 0019.
"""

from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the index."""
    op.create_index("threads_name", "threads", ["session_id", "name"])
