"""Runs revisions on the connection that the caller opened (`circadia.stores.sql.migrate`)."""

from typing import Any

from alembic import context
from alembic.ddl.postgresql import PostgresqlImpl
from sqlalchemy import Index, text

from circadia.stores.sql import memory_tables, sleep_tables
from circadia.stores.sql.online_migration import REPLACED

assert memory_tables.metadata is sleep_tables.metadata  # one schema, of which they add their tables

_EXISTS = text("SELECT to_regclass(:name) IS NOT NULL")


class OnlineImpl(PostgresqlImpl):
    """Leaves the indexes of a database in use to `online_migration`, which builds and drops them concurrently.

    Alembic takes this class for the dialect, since it was defined last.
    """

    __dialect__ = "postgresql"

    def create_index(self, index: Index, **kw: Any) -> None:
        if not self.context_opts.get("defers_indexes"):
            super().create_index(index, **kw)

    def drop_index(self, index: Index, **kw: Any) -> None:
        """Mark the index; it is there until those that take its place are built."""
        if not self.context_opts.get("defers_indexes"):
            super().drop_index(index, **kw)
        elif self.connection is not None and self.connection.scalar(_EXISTS, {"name": index.name}):
            self.connection.execute(text(f"COMMENT ON INDEX {index.name} IS '{REPLACED}'"))


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=sleep_tables.metadata,
    defers_indexes=context.config.attributes.get("defers_indexes", False),
)
context.run_migrations()
