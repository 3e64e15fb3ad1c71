"""Banks to check for a due pass, and indexes for what each check and each call looks up.

Revision 0024, after 0023.
"""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables empty: the first process that decides on passes checks all banks once."""
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "due_checks",
        sa.Column("number", number, sa.Identity(), primary_key=True),
        sa.Column("bank_id", sa.String),
        sa.Column("bound_name", sa.String),
        sa.Column("if_asleep", sa.Boolean, nullable=False, server_default=sa.false()),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "next_checks",
        sa.Column("bank_id", sa.String, primary_key=True),
        sa.Column("at", sa.BigInteger),
        sa.Column("has_backlog", sa.Boolean, nullable=False),
    )
    _create_index("next_checks_at", "next_checks", ["at"], where="at IS NOT NULL")
    _create_index("next_checks_backlog", "next_checks", ["bank_id"], where="has_backlog")
    _create_index("sleep_states_failing", "sleep_states", ["bank_id"], where="failures > 0")
    op.create_index("banks_user", "banks", ["template", "end_user"])
    op.drop_index("banks_template", "banks")
    bank, alive = sa.text("(policy ->> 'bank')"), "deleted_at IS NULL AND enabled"
    _create_index("agents_bank", "agents", [bank, "created_at", "id"], where=alive)
    _create_index("agents_bank_awake", "agents", [bank, "id"], where=f"{alive} AND NOT asleep")


def _create_index(name: str, table: str, columns: list[str | sa.TextClause], *, where: str) -> None:
    op.create_index(name, table, columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where))
