"""Inboxes: counts that are kept, snoozes told from waits, and indexes: of words, urgent ones first, what is retired.

Revision 0005, after 0004.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_SQLITE = (
    """
    CREATE TRIGGER deliveries_added AFTER INSERT ON deliveries BEGIN
        INSERT INTO delivery_counts (agent_id, state, number) VALUES (NEW.agent_id, NEW.state, 1)
            ON CONFLICT (agent_id, state) DO UPDATE SET number = number + 1;
    END
    """,
    """
    CREATE TRIGGER deliveries_removed AFTER DELETE ON deliveries BEGIN
        UPDATE delivery_counts SET number = number - 1 WHERE agent_id = OLD.agent_id AND state = OLD.state;
    END
    """,
    """
    CREATE TRIGGER deliveries_moved AFTER UPDATE OF state ON deliveries WHEN OLD.state <> NEW.state BEGIN
        UPDATE delivery_counts SET number = number - 1 WHERE agent_id = OLD.agent_id AND state = OLD.state;
        INSERT INTO delivery_counts (agent_id, state, number) VALUES (NEW.agent_id, NEW.state, 1)
            ON CONFLICT (agent_id, state) DO UPDATE SET number = number + 1;
    END
    """,
    "CREATE VIRTUAL TABLE message_words USING fts5(words, detail = none, columnsize = 0, tokenize = 'ascii')",
)
_POSTGRESQL = (
    """
    CREATE FUNCTION circadia_count_deliveries() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP <> 'INSERT' THEN
            UPDATE delivery_counts SET number = number - 1 WHERE agent_id = OLD.agent_id AND state = OLD.state;
        END IF;
        IF TG_OP <> 'DELETE' THEN
            INSERT INTO delivery_counts (agent_id, state, number) VALUES (NEW.agent_id, NEW.state, 1)
                ON CONFLICT (agent_id, state) DO UPDATE SET number = delivery_counts.number + 1;
        END IF;
        RETURN NULL;
    END $$
    """,
    """
    CREATE TRIGGER deliveries_counted AFTER INSERT OR DELETE ON deliveries
        FOR EACH ROW EXECUTE FUNCTION circadia_count_deliveries()
    """,
    """
    CREATE TRIGGER deliveries_moved AFTER UPDATE OF state ON deliveries
        FOR EACH ROW WHEN (OLD.state <> NEW.state) EXECUTE FUNCTION circadia_count_deliveries()
    """,
    "CREATE TABLE message_words (number BIGINT PRIMARY KEY, words TSVECTOR NOT NULL)",
    "CREATE INDEX message_words_words ON message_words USING gin (words) WITH (fastupdate = off)",
)


def upgrade() -> None:
    """Add the column, the tables with their triggers, and the indexes."""
    op.add_column("deliveries", sa.Column("snoozed", sa.Boolean(), nullable=False, server_default=sa.text("false")))
    op.create_table(
        "delivery_counts",
        sa.Column("agent_id", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("agent_id", "state"),
    )
    op.execute(
        "INSERT INTO delivery_counts (agent_id, state, number) "
        "SELECT agent_id, state, count(*) FROM deliveries GROUP BY agent_id, state"
    )
    for statement in _SQLITE if op.get_bind().dialect.name == "sqlite" else _POSTGRESQL:
        op.execute(statement)
    op.create_index("deliveries_urgent", "deliveries", ["agent_id", "state", "priority", "number"])
    _partial("deliveries_handled", "deliveries", "ended_at", "state = 'handled'")
    _partial("messages_answers", "messages", "reply_to", "reply_to IS NOT NULL")
    _partial("wakes_message", "wakes", "message_id", "message_id IS NOT NULL")


def _partial(name: str, table: str, column: str, condition: str) -> None:
    op.create_index(name, table, [column], sqlite_where=sa.text(condition), postgresql_where=sa.text(condition))
