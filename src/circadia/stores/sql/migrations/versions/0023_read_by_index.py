"""Indexes by which lists of events are read in order, whatever is stored.

Revision 0023, after 0022.
"""

from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

_EVENTS = {
    "events_session": ["session"],
    "events_agent": ["agent"],
    "events_type": ["type"],
    "events_of_agent": ["session", "agent", "type"],
}


def upgrade() -> None:
    for name, columns in _EVENTS.items():
        op.create_index(name, "events", [*columns, "number"])
