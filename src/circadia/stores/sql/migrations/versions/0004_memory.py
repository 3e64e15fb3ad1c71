"""Memory: banks, episodes, notes with their evidence, versions of blocks.

Revision 0004, after 0003.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the tables."""
    op.create_table(
        "banks",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("template", sa.String(), nullable=True),
        sa.Column("end_user", sa.String(), nullable=True),
        sa.Column("policy", sa.JSON(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("skipped", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("written_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
    )
    op.create_index("banks_template", "banks", ["template"])
    _episodes()
    _notes()
    _blocks()


def _searchable() -> list[sa.Column[Any]]:
    return [
        sa.Column("number", _NUMBER, sa.Identity(), nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("bank_id", sa.String(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("trust", sa.String(), nullable=False),
        sa.Column("importance", sa.Double(), nullable=True),
        sa.Column("terms", sa.LargeBinary(), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=True),
        sa.Column("embedder", sa.String(), nullable=True),
    ]


def _episodes() -> None:
    op.create_table(
        "episodes",
        *_searchable(),
        sa.Column("speaker", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("session", sa.String(), nullable=True),
        sa.Column("metadata", sa.JSON(), nullable=False),
        sa.Column("incomplete", sa.Boolean(), nullable=False),
        sa.Column("key", sa.String(), nullable=True),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("repeats", sa.Integer(), nullable=False, server_default=sa.text("0")),
        sa.Column("stored_at", sa.BigInteger(), nullable=False),
        sa.Column("stale", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["bank_id"], ["banks.id"]),
        sa.PrimaryKeyConstraint("number"),
        sa.UniqueConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("episodes_bank", "episodes", ["bank_id", "number"])
    op.create_index("episodes_key", "episodes", ["bank_id", "key"], unique=True)
    op.create_index("episodes_digest", "episodes", ["bank_id", "digest", "stored_at"])
    op.create_index("episodes_session", "episodes", ["bank_id", "session", "number"])
    op.create_index("episodes_embedder", "episodes", ["embedder", "number"])


def _notes() -> None:
    op.create_table(
        "notes",
        *_searchable(),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("pass_id", sa.String(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("retired_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["bank_id"], ["banks.id"]),
        sa.PrimaryKeyConstraint("number"),
        sa.UniqueConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("notes_bank", "notes", ["bank_id", "number"])
    op.create_index("notes_embedder", "notes", ["embedder", "number"])
    op.create_table(
        "evidence",
        sa.Column("note_id", sa.String(), nullable=False),
        sa.Column("episode_id", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["note_id"], ["notes.id"]),
        sa.ForeignKeyConstraint(["episode_id"], ["episodes.id"]),
        sa.PrimaryKeyConstraint("note_id", "episode_id"),
    )
    op.create_index("evidence_episode", "evidence", ["episode_id"])


def _blocks() -> None:
    op.create_table(
        "blocks",
        sa.Column("bank_id", sa.String(), nullable=False),
        sa.Column("label", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("parent", sa.Integer(), nullable=True),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("limit", sa.Integer(), nullable=False),
        sa.Column("pinned", sa.Boolean(), nullable=False),
        sa.Column("read_only", sa.Boolean(), nullable=False),
        sa.Column("deleted", sa.Boolean(), nullable=False),
        sa.Column("spans", sa.JSON(), nullable=False),
        sa.Column("by", sa.String(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["bank_id"], ["banks.id"]),
        sa.PrimaryKeyConstraint("bank_id", "label", "version"),
    )
