"""A ready answer names the newest turn that was read for it, and a frame why nothing is asked ahead in it.

Revision 0039, after 0038.
"""

import sqlalchemy as sa
from alembic import op

revision = "0039"
down_revision = "0038"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("answers", sa.Column("read_upto", sa.BigInteger, nullable=False, server_default=sa.text("0")))
    op.drop_column("answers", "settled")
    op.add_column("answer_frames", sa.Column("why_not", sa.Text, nullable=False, server_default=sa.text("''")))
