"""What the gateway records: calls, conversations, provider ids, open turns; and what the servers share.

Revision 0002, after 0001.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    _calls()
    _conversations()
    _provider_ids()
    _open_turns()
    _alerts()
    _write_probe()


def _calls() -> None:
    op.create_table(
        "calls",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("agent_id", sa.String, nullable=False),
        sa.Column("session", sa.String, nullable=False),
        sa.Column("agent", sa.String, nullable=False),
        sa.Column("tier", sa.String, nullable=False),
        sa.Column("upstream", sa.String, nullable=False),
        sa.Column("endpoint", sa.String, nullable=False),
        sa.Column("model", sa.String, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("http_status", sa.Integer),
        sa.Column("streamed", sa.Boolean, nullable=False),
        sa.Column("input_tokens", sa.BigInteger),
        sa.Column("output_tokens", sa.BigInteger),
        sa.Column("cached_tokens", sa.BigInteger),
        sa.Column("reasoning_tokens", sa.BigInteger),
        sa.Column("reserved_tokens", sa.BigInteger, nullable=False),
        sa.Column("reserved_nanousd", sa.BigInteger, nullable=False),
        sa.Column("cost_nanousd", sa.BigInteger),
        sa.Column("held_seconds", sa.Double, nullable=False),
        sa.Column("first_token_seconds", sa.Double),
        sa.Column("total_seconds", sa.Double),
        sa.Column("conversation", sa.String),
        sa.Column("end_user", sa.String),
        sa.Column("turn", sa.Boolean, nullable=False),
        sa.Column("merged", sa.BigInteger),
    )
    op.create_index("calls_agent", "calls", ["agent_id", "at"])
    op.create_index("calls_at", "calls", ["at"])


def _conversations() -> None:
    op.create_table(
        "conversations",
        sa.Column("agent_id", sa.String, primary_key=True),
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("end_user", sa.String),
        sa.Column("turns", sa.BigInteger, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("head", sa.String, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
    )
    op.create_index("conversations_at", "conversations", ["agent_id", "at"])
    op.create_index("conversations_seen", "conversations", ["at"])


def _provider_ids() -> None:
    op.create_table(
        "provider_ids",
        sa.Column("upstream", sa.String, primary_key=True),
        sa.Column("provider_id", sa.String, primary_key=True),
        sa.Column("agent_id", sa.String, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
    )
    op.create_index("provider_ids_at", "provider_ids", ["at"])


def _open_turns() -> None:
    op.create_table(
        "open_turns",
        sa.Column("owner", sa.String, primary_key=True),
        sa.Column("id", sa.BigInteger, primary_key=True),
        sa.Column("bank", sa.String, nullable=False),
        sa.Column("end_user", sa.String, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("lease_until", sa.BigInteger, nullable=False),
    )
    op.create_index("open_turns_bank", "open_turns", ["bank", "end_user"])


def _alerts() -> None:
    op.create_table(
        "alerts",
        sa.Column("cause", sa.String, primary_key=True),
        sa.Column("subject", sa.String, primary_key=True),
        sa.Column("told_at", sa.BigInteger, nullable=False),
        sa.Column("post", sa.JSON),
    )


def _write_probe() -> None:
    table = op.create_table(
        "write_probe",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("filling", sa.LargeBinary, nullable=False),
    )
    op.bulk_insert(table, [{"id": 1, "filling": b""}])
