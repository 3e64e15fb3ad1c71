"""Which notes were copied into other banks.

Revision 0043, after 0042.
"""

import sqlalchemy as sa
from alembic import op

revision = "0043"
down_revision = "0042"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "promotions",
        sa.Column("note_id", sa.String, primary_key=True),
        sa.Column("bank_id", sa.String, primary_key=True),
        sa.Column("source_bank_id", sa.String, nullable=False),
        sa.Column("episode_id", sa.String, nullable=False),
    )
    op.create_index("promotions_source", "promotions", ["source_bank_id"])
    op.create_index("promotions_bank", "promotions", ["bank_id"])
