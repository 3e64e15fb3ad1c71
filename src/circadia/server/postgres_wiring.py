"""The parts of a server on PostgreSQL. Only such a server imports them, which saves others 9 MB."""

from circadia.stores.postgres import list_index_changes, open_postgres
from circadia.stores.signals.postgres import NotifyCarrier
from circadia.stores.sql.postgres_revision import postgres_revision

__all__ = ["NotifyCarrier", "list_index_changes", "open_postgres", "postgres_revision"]
