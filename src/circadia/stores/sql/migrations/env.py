"""Runs revisions on the connection that the caller opened (`circadia.stores.sql.migrate`)."""

from alembic import context

from circadia.stores.sql.memory_tables import metadata  # with the tables of memory

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
