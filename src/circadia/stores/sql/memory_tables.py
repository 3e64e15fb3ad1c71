"""The tables of memory for both dialects; see `schema.py` for the rest."""

from typing import Any

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    text,
)

from circadia.stores.sql.schema import NUMBER, Instant, metadata, only

banks = Table(
    "banks",
    metadata,
    Column("id", String, primary_key=True),
    Column("name", String, nullable=False, unique=True),
    Column("description", Text, nullable=False),
    Column("template", String),
    Column("end_user", String),
    Column("policy", JSON, nullable=False),
    Column("automatic", Boolean, nullable=False, server_default=text("false")),
    Column("generation", Integer, nullable=False),
    Column("skipped", JSON, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("written_at", Instant),
    Column("demotions", Integer, nullable=False, server_default=text("0")),
    Column("published", Integer, nullable=False, server_default=text("0")),
    Column("vectors", Integer, nullable=False, server_default=text("0")),
    Column("edited_at", Instant),
    Column("answers", Integer, nullable=False, server_default=text("0")),
    Column("answers_purged", Integer, nullable=False, server_default=text("0")),  # see `Answers.find_changed`
    Column("corrected_on", Integer),  # the last day with a correction by an agent, in days since 1970
    Column("corrections", Integer, nullable=False, server_default=text("0")),  # their number on that day
)
Index("banks_user", banks.c.template, banks.c.end_user)
Index("banks_of_template", banks.c.template, banks.c.name)
KEEPS_DAYS = {
    "sqlite": "json_extract(policy, '$.keep_days') IS NOT NULL", "postgresql": "(policy ->> 'keep_days') IS NOT NULL",
}  # fmt: skip
"""Condition of banks that keep episodes for a time only, by dialect."""
Index(
    "banks_expiring",
    banks.c.name,
    sqlite_where=text(KEEPS_DAYS["sqlite"]),
    postgresql_where=text(KEEPS_DAYS["postgresql"]),
)


def _searchable() -> list[Column[Any]]:
    return [
        Column("number", NUMBER, Identity(), primary_key=True),
        Column("id", String, nullable=False, unique=True),
        Column("bank_id", String, ForeignKey("banks.id"), nullable=False),
        Column("at", Instant, nullable=False),
        Column("text", Text, nullable=False),
        Column("trust", String, nullable=False),
        Column("importance", Double),
        Column("terms", LargeBinary, nullable=False),
        Column("vector", LargeBinary),
        Column("embedder", String),
    ]


episodes = Table(
    "episodes",
    metadata,
    *_searchable(),
    Column("speaker", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("conversation", String),
    Column("metadata", JSON, nullable=False),
    Column("incomplete", Boolean, nullable=False),
    Column("key", String),
    Column("digest", String, nullable=False),
    Column("repeats", Integer, nullable=False, server_default=text("0")),
    Column("stored_at", Instant, nullable=False),
    Column("stale", JSON, nullable=False),
    Column("demotion", Integer),  # the bank's demotion count at its last change
    Column("passages", LargeBinary),
    Column("expires_at", Instant),
    sqlite_autoincrement=True,  # numbers are never reused, whatever is forgotten
)
Index("episodes_bank", episodes.c.bank_id, episodes.c.number)
Index("episodes_key", episodes.c.bank_id, episodes.c.key, unique=True)
Index("episodes_digest", episodes.c.bank_id, episodes.c.digest, episodes.c.stored_at)
Index("episodes_conversation", episodes.c.bank_id, episodes.c.conversation, episodes.c.number)
Index("episodes_unembedded", episodes.c.number, episodes.c.bank_id, **only("embedder IS NULL"))
Index("episodes_at", episodes.c.bank_id, episodes.c.at)
Index("episodes_expires_at", episodes.c.expires_at, **only("expires_at IS NOT NULL"))
Index("episodes_demotion", episodes.c.bank_id, episodes.c.demotion)
Index("episodes_stale", episodes.c.bank_id, **only("CAST(stale AS TEXT) != '[]'"))

forgotten_episodes = Table(
    "forgotten_episodes",
    metadata,
    Column("id", String, primary_key=True),
    Column("bank_id", String, ForeignKey("banks.id"), nullable=False),
    Column("at", Instant, nullable=False),
    Column("speaker", String, nullable=False),
    Column("conversation", String),
    Column("episode", JSON, nullable=False),
    Column("by", String, nullable=False),
    Column("forgotten_at", Instant, nullable=False),
)
Index("forgotten_episodes_bank", forgotten_episodes.c.bank_id, forgotten_episodes.c.forgotten_at)
Index("forgotten_episodes_at", forgotten_episodes.c.forgotten_at)

notes = Table(
    "notes",
    metadata,
    *_searchable(),
    Column("used_at", Instant),
    Column("kind", String, nullable=False),
    Column("pass_id", String),
    Column("created_at", Instant, nullable=False),
    Column("retired_at", Instant),
    Column("demotion", Integer),  # the bank's demotion count when it was last retired or restored
    Column("operation", String),
    Column("valid_to", Instant),
    sqlite_autoincrement=True,
)
Index("notes_retired_at", notes.c.retired_at, **only("retired_at IS NOT NULL"))
Index("notes_demotion", notes.c.bank_id, notes.c.demotion)
Index("notes_bank", notes.c.bank_id, notes.c.number)
Index("notes_unembedded", notes.c.number, notes.c.bank_id, **only("embedder IS NULL"))
Index("notes_live", notes.c.bank_id, notes.c.number, **only("retired_at IS NULL"))
Index("notes_retired", notes.c.bank_id, notes.c.number, **only("retired_at IS NOT NULL"))

evidence = Table(
    "evidence",
    metadata,
    Column("note_id", String, ForeignKey("notes.id"), primary_key=True),
    Column("episode_id", String, ForeignKey("episodes.id"), primary_key=True),
)
Index("evidence_episode", evidence.c.episode_id)

blocks = Table(
    "blocks",
    metadata,
    Column("bank_id", String, ForeignKey("banks.id"), primary_key=True),
    Column("label", String, primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("parent", Integer),
    Column("value", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("limit", Integer, nullable=False),
    Column("pinned", Boolean, nullable=False),
    Column("read_only", Boolean, nullable=False),
    Column("deleted", Boolean, nullable=False),
    Column("spans", JSON, nullable=False),
    Column("by", String, nullable=False),
    Column("why", Text, nullable=False),
    Column("at", Instant, nullable=False),
    Column("operation", String),
)

Index("blocks_at", blocks.c.at)

removals = Table(
    "removals",
    metadata,
    Column("bank_id", String, ForeignKey("banks.id"), primary_key=True),
    Column("generation", Integer, primary_key=True),
    Column("numbers", JSON, nullable=False),  # of the rows removed by this generation, by layer
)
