"""What a text's speaker is known by lasts as long as its conversation, so its row names that.

Revision 0040, after 0039.
"""

import sqlalchemy as sa
from alembic import op

revision = "0040"
down_revision = "0039"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("provenances", sa.Column("conversation", sa.String, nullable=False, server_default=""))
    op.create_index("provenances_conversation", "provenances", ["conversation"])
