"""Inbound webhooks with the deliveries that they have accepted; questions in providers' batches.

Revision 0047, after 0046.
"""

import sqlalchemy as sa
from alembic import op

revision = "0047"
down_revision = "0046"
branch_labels = None
depends_on = None


_IS_BATCHED = sa.text("batch IS NOT NULL")


def upgrade() -> None:
    op.create_table(
        "hooks",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("spec", sa.JSON, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("created_by", sa.String, nullable=False),
    )
    op.create_table(
        "hook_deliveries",
        sa.Column("hook", sa.String, primary_key=True),
        sa.Column("delivery_id", sa.String, primary_key=True),
        sa.Column("digest", sa.String, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("message_id", sa.String),
        sa.Column("wake_id", sa.String),
    )
    op.create_index("hook_deliveries_digest", "hook_deliveries", ["hook", "digest"])
    op.create_index("hook_deliveries_hook", "hook_deliveries", ["hook", "at", "delivery_id"])
    op.create_index("hook_deliveries_at", "hook_deliveries", ["at"])
    op.add_column("sleep_calls", sa.Column("batch", sa.String))
    op.add_column("sleep_calls", sa.Column("batch_id", sa.String))
    op.add_column("sleep_calls", sa.Column("used", sa.Boolean, nullable=False, server_default=sa.false()))
    op.create_index("sleep_calls_batch", "sleep_calls", ["at"], sqlite_where=_IS_BATCHED, postgresql_where=_IS_BATCHED)
