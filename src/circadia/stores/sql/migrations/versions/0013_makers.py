"""Who made notes and blocks: the operation, which the records of passes tell only for a while.

Revision 0013, after 0012. What the records still tell is taken over.
"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_MADE = "SELECT MAX(operation) FROM pass_changes WHERE pass_changes.state = 'published' AND "
_NOTE = "pass_changes.pass_id = notes.pass_id AND pass_changes.kind = 'add_note' AND pass_changes.target = notes.id"
_BLOCK = (
    "pass_changes.pass_id = SUBSTR(blocks.by, 6) AND pass_changes.kind = 'write_block' "
    "AND pass_changes.target = blocks.label"
)  # they are written by `pass ID`


def upgrade() -> None:
    """Add the columns."""
    for table in ("notes", "blocks"):
        op.add_column(table, sa.Column("operation", sa.String()))
    op.execute(f"UPDATE notes SET operation = ({_MADE}{_NOTE}) WHERE pass_id IS NOT NULL")  # noqa: S608
    op.execute(f"UPDATE blocks SET operation = ({_MADE}{_BLOCK}) WHERE blocks.by LIKE 'pass %'")  # noqa: S608
