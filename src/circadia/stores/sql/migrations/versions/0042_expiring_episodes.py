"""An episode may have a date on which it expires.

<<<<<<< HEAD:src/circadia/stores/sql/migrations/versions/0042_expiring_episodes.py
Revision 0042, after 0041.
=======
Revision 0044, after 0042.
>>>>>>> h32:src/circadia/stores/sql/migrations/versions/0044_expiring_episodes.py
"""

import sqlalchemy as sa
from alembic import op

<<<<<<< HEAD:src/circadia/stores/sql/migrations/versions/0042_expiring_episodes.py
revision = "0042"
down_revision = "0041"
=======
revision = "0044"
down_revision = "0042"
>>>>>>> h32:src/circadia/stores/sql/migrations/versions/0044_expiring_episodes.py
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("episodes", sa.Column("expires_at", sa.BigInteger))
    only = sa.text("expires_at IS NOT NULL")
    op.create_index("episodes_expires_at", "episodes", ["expires_at"], sqlite_where=only, postgresql_where=only)
