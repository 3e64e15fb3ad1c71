"""Numbers that no reader misses, although writers commit side by side.

Events get their number after their commit, and each message knows whether it is indexed.

Revision 0009, after 0008.
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """In PostgreSQL a new event arrives with a negative number; SQLite commits in order and needs no such thing."""
    op.add_column("messages", sa.Column("indexed", sa.Boolean, nullable=False, server_default=sa.text("false")))
    last = "SELECT coalesce(max({}), 0) FROM message_words"
    key = "rowid" if op.get_bind().dialect.name == "sqlite" else "number"
    op.execute(f"UPDATE messages SET indexed = true WHERE number <= ({last.format(key)})")  # noqa: S608 - no input
    where = sa.text("NOT indexed")
    op.create_index("messages_unindexed", "messages", ["number"], sqlite_where=where, postgresql_where=where)
    if op.get_bind().dialect.name != "postgresql":
        return
    op.execute("CREATE SEQUENCE event_arrivals")
    op.execute("CREATE SEQUENCE event_numbers")
    op.execute("SELECT setval('event_numbers', coalesce(max(number), 0) + 1, false) FROM events")
    op.execute("ALTER TABLE events ALTER COLUMN number DROP IDENTITY")
    op.execute("ALTER TABLE events ALTER COLUMN number SET DEFAULT -nextval('event_arrivals')")
    op.execute("ALTER SEQUENCE event_arrivals OWNED BY events.number")
    op.execute("ALTER SEQUENCE event_numbers OWNED BY events.number")
