"""Verdicts of judges about ready answers.

Revision 0007, after 0006.
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "answer_verdicts",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("bank_id", sa.String, sa.ForeignKey("banks.id"), nullable=False),
        sa.Column("answer_id", sa.String, nullable=False),
        sa.Column("same", sa.Boolean, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
    )
    op.create_index("answer_verdicts_answer", "answer_verdicts", ["answer_id"])
    op.create_index("answer_verdicts_at", "answer_verdicts", ["at"])
    op.create_index("answer_verdicts_bank", "answer_verdicts", ["bank_id", "at"])
