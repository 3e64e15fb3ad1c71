"""A pass may have a budget of its own; a model call of a pass records the price of its thinking.

Revision 0038, after 0037.
"""

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("passes", sa.Column("budget_tokens", sa.BigInteger))
    op.add_column("sleep_calls", sa.Column("thinking_nanousd", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("sleep_calls", sa.Column("own_budget", sa.Boolean, nullable=False, server_default=sa.false()))
