"""Migrates a database to the schema of this version, and checks whether this version works with a newer schema.

Each revision has a number and may state `works_with`: the oldest schema whose code works with it too. Without that,
only code that knows the revision works with it. The database keeps the highest `works_with` beside its revision, so an
older process learns from there that a newer schema does it no harm.
"""

import importlib
from typing import TYPE_CHECKING, Final, cast

from sqlalchemy import Connection, inspect, text

from circadia.errors import StartError
from circadia.stores.sql.revisions import find_missing, list_revisions, newest_revision, read_revision

if TYPE_CHECKING:
    from circadia.stores.sql import upgrade

_WORKS_WITH: Final = text("SELECT works_with FROM alembic_version")
_KEEP_WORKS_WITH: Final = text("UPDATE alembic_version SET works_with = :number")
_LIVE_MEMBERS: Final = text(
    "SELECT count(*) FROM members WHERE lease_until > extract(epoch FROM clock_timestamp()) * 1000000"
)
# A connection that a pooler keeps has its last client's name for some time.
_SESSIONS: Final = text(
    "SELECT coalesce(host(client_addr), 'this machine') AS host, min(backend_start) AS since,"
    " string_agg(pid::text, ', ' ORDER BY pid) AS pids FROM pg_stat_activity"
    " WHERE datname = current_database() AND application_name IN ('circadia', 'circadia signals')"
    " AND pid <> pg_backend_pid() AND coalesce(state_change, clock_timestamp()) > clock_timestamp() - interval '15 s'"
    " GROUP BY client_addr ORDER BY since"
)
_OLDER_MEMBERS: Final = text(
    "SELECT address, host, version FROM members WHERE lease_until > extract(epoch FROM clock_timestamp()) * 1000000"
    " AND coalesce(schema, '') < :number ORDER BY address"
)


def migrate(connection: Connection, *, defers_indexes: bool = False) -> None:
    """Apply the missing revisions in the open transaction.

    With `defers_indexes`, those of a database in use leave its indexes to `online_migration`. Alembic works with module
    variables: only one migration at a time in a process.

    Raises:
        StartError: this version does not work with the schema of a newer one, or live members do not work with this
            one's.
    """
    present, newest = read_revision(connection), newest_revision()
    if present is not None and present > newest:
        _require_tolerance(connection, present, newest)
    missing = find_missing(present)
    if not missing:
        return
    if present is not None and connection.dialect.name == "postgresql":  # one process has the whole of SQLite
        _require_newer_processes(connection, present, max(revision.works_with for revision in missing))
    # Imported here because Alembic takes 10 MB, which a server keeps.
    alembic = cast("upgrade", importlib.import_module("circadia.stores.sql.upgrade"))
    alembic.apply_revisions(connection, defers_indexes=defers_indexes and present is not None)
    connection.execute(_KEEP_WORKS_WITH, {"number": max(revision.works_with for revision in list_revisions())})


def _require_tolerance(connection: Connection, present: str, newest: str) -> None:
    works_with: str | None = connection.execute(_WORKS_WITH).scalar()
    if works_with is None or newest < works_with:
        raise StartError(
            f"the database has schema {present!r} of a newer version, which works with code for schema"
            f" {works_with or present!r} or newer; this version knows schema {newest!r}: install a newer version, or"
            " restore a backup from before"
        )


def _require_newer_processes(connection: Connection, present: str, works_with: str) -> None:
    """Refuse a migration that would break processes that run now."""
    tables = inspect(connection)
    if tables.has_table("members") and any(column["name"] == "schema" for column in tables.get_columns("members")):
        older = connection.execute(_OLDER_MEMBERS, {"number": works_with}).first()
        if older is not None:
            raise StartError(
                f"{older.address} on {older.host} runs version {older.version}, which does not work with the new"
                f" schema: upgrade or stop all processes that do not know schema {works_with!r}; one that has died"
                " counts for 15 s"
            )
        if connection.scalar(_LIVE_MEMBERS):  # the connections are theirs
            return
    if works_with <= present:
        return
    sessions = [
        f"{row.host}, since {row.since:%F %T %Z} (processes {row.pids} of PostgreSQL)"
        for row in connection.execute(_SESSIONS)
    ]
    if sessions:
        raise StartError(
            f"an older version that does not work with the new schema is connected from {'; '.join(sessions)}: stop it,"
            " and migrate then; one that has ended may count for 15 s"
        )
