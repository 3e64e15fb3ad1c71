"""Alembic, which a process loads only if its database has an older schema."""

from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection

MIGRATIONS: Final = Path(__file__).parent / "migrations"


def build_config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    return config


def apply_revisions(connection: Connection, *, defers_indexes: bool) -> None:
    """Bring the schema to the newest revision in the open transaction."""
    config = build_config()
    config.attributes["connection"] = connection
    config.attributes["defers_indexes"] = defers_indexes
    command.upgrade(config, "head")
