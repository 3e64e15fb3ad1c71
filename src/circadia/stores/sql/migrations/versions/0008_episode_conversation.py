"""The conversation of an episode, which was called its session.

Revision 0008, after 0007.
"""

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Rename the column and its index; drop the ready views with this filter, which passes build again."""
    op.drop_index("episodes_session", "episodes")
    op.alter_column("episodes", "session", new_column_name="conversation")
    op.create_index("episodes_conversation", "episodes", ["bank_id", "conversation", "number"])
    op.execute("""DELETE FROM views WHERE CAST(asked AS TEXT) LIKE '%"session":%'""")
