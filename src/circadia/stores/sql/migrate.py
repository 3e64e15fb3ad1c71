"""Migrates a database to the schema of this version."""

from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from circadia.errors import StartError

MIGRATIONS: Final = Path(__file__).parent / "migrations"


def migrate(connection: Connection) -> None:
    """Apply the missing revisions in the open transaction.

    Alembic works with module variables: only one migration at a time in a process.

    Raises:
        StartError: a newer version of Circadia has changed the database.
    """
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    script = ScriptDirectory.from_config(config)
    known = {revision.revision for revision in script.walk_revisions()}
    heads = MigrationContext.configure(connection).get_current_heads()
    newer = sorted(set(heads) - known)
    if newer:
        raise StartError(
            f"the database has revision {newer[0]!r}, which this version of Circadia does not know:"
            " a newer version has used it; install that version, or restore a backup from before"
        )
    if set(heads) != set(script.get_heads()):
        command.upgrade(config, "head")
