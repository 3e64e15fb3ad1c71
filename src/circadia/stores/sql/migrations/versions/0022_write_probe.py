"""A row to find out with whether the database takes writes.

Revision 0022, after 0021.
"""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table and its only row."""
    table = op.create_table(
        "write_probe",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("filling", sa.LargeBinary(), nullable=False),
    )
    op.bulk_insert(table, [{"id": 1, "filling": b""}])
