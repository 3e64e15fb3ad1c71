"""Runs revisions on the connection that the caller opened (`circadia.stores.sql.migrate`)."""

from alembic import context

from circadia.stores.sql import memory_tables, sleep_tables

assert memory_tables.metadata is sleep_tables.metadata  # one schema, of which they add their tables

context.configure(connection=context.config.attributes["connection"], target_metadata=sleep_tables.metadata)
context.run_migrations()
