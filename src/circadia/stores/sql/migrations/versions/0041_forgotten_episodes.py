"""What an agent forgets for its end user is kept apart for some days; a bank counts a day's corrections by agents.

Revision 0041, after 0040.
"""

import sqlalchemy as sa
from alembic import op

revision = "0041"
down_revision = "0040"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("banks", sa.Column("corrected_on", sa.Integer))
    op.add_column("banks", sa.Column("corrections", sa.Integer, nullable=False, server_default=sa.text("0")))
    op.create_table(
        "forgotten_episodes",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("bank_id", sa.String, sa.ForeignKey("banks.id"), nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("speaker", sa.String, nullable=False),
        sa.Column("conversation", sa.String),
        sa.Column("episode", sa.JSON, nullable=False),
        sa.Column("by", sa.String, nullable=False),
        sa.Column("forgotten_at", sa.BigInteger, nullable=False),
    )
    op.create_index("forgotten_episodes_bank", "forgotten_episodes", ["bank_id", "forgotten_at"])
    op.create_index("forgotten_episodes_at", "forgotten_episodes", ["forgotten_at"])
