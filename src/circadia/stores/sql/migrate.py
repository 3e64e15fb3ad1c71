"""Bringing a database to the schema that this version of the code needs."""

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
    """Apply the revisions that the database lacks, in the transaction that is open.

    Alembic keeps what it works on in module variables: no two of these at once in one process.

    Raises:
        StartError: A newer version of Circadia has changed the database.
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
