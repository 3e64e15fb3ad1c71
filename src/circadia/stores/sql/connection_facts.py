"""What a connection says about the way to PostgreSQL: a pooler between, and how many connections there may be."""

from typing import Final, NamedTuple

import asyncpg
from sqlalchemy import Connection, exc, text

POOLER_TOO_OLD: Final = (
    "a pooler without prepared statements is between this process and PostgreSQL; use PgBouncer 1.21 or newer with "
    "max_prepared_statements = 200, or connect directly"
)
_FACTS: Final = text(
    # A pooler gives each client a process number of its own. One that keeps prepared statements renames them.
    "SELECT pg_backend_pid() <> :pid AS is_pooled,"
    r" EXISTS (SELECT FROM pg_prepared_statements WHERE name LIKE '\_\_asyncpg\_%') AS has_own_names,"
    " current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int"
    " - coalesce(current_setting('reserved_connections', true), '0')::int AS most"
)
_LOST: Final = (asyncpg.DuplicatePreparedStatementError, asyncpg.InvalidSQLStatementNameError)


class ConnectionFacts(NamedTuple):
    is_pooled: bool
    """Whether a pooler such as PgBouncer is between."""
    loses_statements: bool
    """Whether the pooler may run a prepared statement on a connection that does not know it."""
    most: int
    """Maximum number of connections of users without special rights."""


def read_connection_facts(connection: Connection) -> ConnectionFacts:
    driver = connection.connection.driver_connection
    assert driver is not None
    row = connection.execute(_FACTS, {"pid": driver.get_server_pid()}).one()
    return ConnectionFacts(
        is_pooled=row.is_pooled, loses_statements=row.is_pooled and row.has_own_names, most=row.most
    )  # fmt: skip


def is_lost_statement(error: BaseException) -> bool:
    """Return whether a pooler has mixed up prepared statements."""
    return isinstance(error.driver_exception if isinstance(error, exc.DBAPIError) else error, _LOST)
