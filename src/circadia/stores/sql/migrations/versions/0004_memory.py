"""Banks with their episodes, notes, blocks, views and provenances.

Revision 0004, after 0003.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Create the tables."""
    _banks()
    _episodes()
    _notes()
    _evidence()
    _blocks()
    _views()
    _provenances()
    _removals()


def _banks() -> None:
    op.create_table(
        "banks",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("name", sa.String, nullable=False, unique=True),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("template", sa.String),
        sa.Column("end_user", sa.String),
        sa.Column("policy", sa.JSON, nullable=False),
        sa.Column("automatic", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("skipped", sa.JSON, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("written_at", sa.BigInteger),
        sa.Column("demotions", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("published", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("vectors", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("edited_at", sa.BigInteger),
        sa.Column("answers", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("answers_purged", sa.Integer, nullable=False, server_default=sa.text("0")),
    )
    op.create_index("banks_template", "banks", ["template"])


def _episodes() -> None:
    op.create_table(
        "episodes",
        sa.Column("number", _NUMBER, sa.Identity(), primary_key=True),
        sa.Column("id", sa.String, nullable=False, unique=True),
        sa.Column("bank_id", sa.String, sa.ForeignKey("banks.id"), nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("trust", sa.String, nullable=False),
        sa.Column("importance", sa.Double),
        sa.Column("terms", sa.LargeBinary, nullable=False),
        sa.Column("vector", sa.LargeBinary),
        sa.Column("embedder", sa.String),
        sa.Column("used_at", sa.BigInteger),
        sa.Column("speaker", sa.String, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("session", sa.String),
        sa.Column("metadata", sa.JSON, nullable=False),
        sa.Column("incomplete", sa.Boolean, nullable=False),
        sa.Column("key", sa.String),
        sa.Column("digest", sa.String, nullable=False),
        sa.Column("repeats", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("stored_at", sa.BigInteger, nullable=False),
        sa.Column("stale", sa.JSON, nullable=False),
        sa.Column("demotion", sa.Integer),
        sqlite_autoincrement=True,
    )
    op.create_index("episodes_bank", "episodes", ["bank_id", "number"])
    op.create_index("episodes_demotion", "episodes", ["bank_id", "demotion"])
    op.create_index("episodes_digest", "episodes", ["bank_id", "digest", "stored_at"])
    op.create_index("episodes_embedder", "episodes", ["embedder", "number"])
    op.create_index("episodes_key", "episodes", ["bank_id", "key"], unique=True)
    op.create_index("episodes_session", "episodes", ["bank_id", "session", "number"])


def _notes() -> None:
    op.create_table(
        "notes",
        sa.Column("number", _NUMBER, sa.Identity(), primary_key=True),
        sa.Column("id", sa.String, nullable=False, unique=True),
        sa.Column("bank_id", sa.String, sa.ForeignKey("banks.id"), nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("trust", sa.String, nullable=False),
        sa.Column("importance", sa.Double),
        sa.Column("terms", sa.LargeBinary, nullable=False),
        sa.Column("vector", sa.LargeBinary),
        sa.Column("embedder", sa.String),
        sa.Column("used_at", sa.BigInteger),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("pass_id", sa.String),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("retired_at", sa.BigInteger),
        sa.Column("demotion", sa.Integer),
        sa.Column("operation", sa.String),
        sqlite_autoincrement=True,
    )
    op.create_index("notes_bank", "notes", ["bank_id", "number"])
    op.create_index("notes_demotion", "notes", ["bank_id", "demotion"])
    op.create_index("notes_embedder", "notes", ["embedder", "number"])


def _evidence() -> None:
    op.create_table(
        "evidence",
        sa.Column("note_id", sa.String, sa.ForeignKey("notes.id"), primary_key=True),
        sa.Column("episode_id", sa.String, sa.ForeignKey("episodes.id"), primary_key=True),
    )
    op.create_index("evidence_episode", "evidence", ["episode_id"])


def _blocks() -> None:
    op.create_table(
        "blocks",
        sa.Column("bank_id", sa.String, sa.ForeignKey("banks.id"), primary_key=True),
        sa.Column("label", sa.String, primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True),
        sa.Column("parent", sa.Integer),
        sa.Column("value", sa.Text, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("limit", sa.Integer, nullable=False),
        sa.Column("pinned", sa.Boolean, nullable=False),
        sa.Column("read_only", sa.Boolean, nullable=False),
        sa.Column("deleted", sa.Boolean, nullable=False),
        sa.Column("spans", sa.JSON, nullable=False),
        sa.Column("by", sa.String, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("operation", sa.String),
    )


def _views() -> None:
    op.create_table(
        "views",
        sa.Column("bank_id", sa.String, sa.ForeignKey("banks.id"), primary_key=True),
        sa.Column("kind", sa.String, primary_key=True),
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("asked", sa.JSON, nullable=False),
        sa.Column("limit", sa.Integer, nullable=False),
        sa.Column("days", sa.JSON, nullable=False),
        sa.Column("asked_at", sa.BigInteger),
        sa.Column("stamp", sa.Text),
        sa.Column("depth", sa.Integer, nullable=False),
        sa.Column("hits", sa.JSON, nullable=False),
        sa.Column("made_at", sa.BigInteger),
    )


def _provenances() -> None:
    op.create_table(
        "provenances",
        sa.Column("number", _NUMBER, sa.Identity(), primary_key=True),
        sa.Column("scope", sa.String, nullable=False),
        sa.Column("speaker", sa.String, nullable=False),
        sa.Column("trust", sa.String),
        sa.Column("bank", sa.String),
        sa.Column("messages", sa.JSON, nullable=False),
        sa.Column("fingerprints", sa.LargeBinary, nullable=False),
        sa.Column("whole", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("provenances_expiry", "provenances", ["expires_at"])
    op.create_index("provenances_scope", "provenances", ["scope", "number"])


def _removals() -> None:
    op.create_table(
        "removals",
        sa.Column("bank_id", sa.String, sa.ForeignKey("banks.id"), primary_key=True),
        sa.Column("generation", sa.Integer, primary_key=True),
        sa.Column("numbers", sa.JSON, nullable=False),
    )
