"""Migrates a PostgreSQL database while other processes read and write it.

The revisions run in one transaction, which waits for a lock so briefly that writers behind it are not held up, and then
tries again. It creates and drops no index of a database that has been used (`migrations/env.py`): afterwards each
index that the schema names and the database lacks is built, and those that were replaced are dropped, concurrently.
What an interrupted process has left is found by the next.

    BEGIN, revisions, COMMIT        under the lock of migrations; again after `_PAUSE_SECONDS` if a table is locked
    CREATE INDEX CONCURRENTLY …     on one connection, while another keeps the lock of builds and watches the progress
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from sqlalchemy import Connection, Index, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateIndex

from circadia.errors import CircadiaError, StartError, StorageUnavailable
from circadia.stores.sql.driver_errors import is_contention
from circadia.stores.sql.link import Link, Work, do_nothing
from circadia.stores.sql.migrate import migrate
from circadia.stores.sql.postgres_revision import POOLER_TOO_OLD, read_connection_facts
from circadia.stores.sql.revision import ConnectionFacts
from circadia.stores.sql.revisions import newest_revision, read_revision
from circadia.stores.sql.sleep_tables import metadata

T = TypeVar("T")

_logger = logging.getLogger(__name__)

BEGIN_MIGRATION: Final = ("BEGIN", "SELECT pg_advisory_xact_lock(4114)")
"""One process at a time migrates."""
_LOCK_MILLISECONDS: Final = 400
_LONG_LOCK_MILLISECONDS: Final = 1300
"""Each fourth try waits longer than PostgreSQL's `deadlock_timeout` of 1 s, after which it ends a vacuum in the way."""
_PAUSE_SECONDS: Final = 1.0
"""Time between two tries, in which the writers that waited go on."""
_MAX_TRIES: Final = 400
"""Some ten minutes."""
_LOOK_SECONDS: Final = 0.2
_REPORT_SECONDS: Final = 10.0
_LIMITS: Final = "('statement_timeout', 'lock_timeout', 'transaction_timeout', 'idle_in_transaction_session_timeout')"
_NO_LOCAL_LIMITS: Final = f"SELECT set_config(name, '0', true) FROM pg_settings WHERE name IN {_LIMITS}"  # noqa: S608 - constants
_NO_LIMITS: Final = text(f"SELECT set_config(name, '0', false) FROM pg_settings WHERE name IN {_LIMITS}")  # noqa: S608 - constants
_TRY_LOCK_OF_BUILDS: Final = text("SELECT pg_try_advisory_xact_lock(4115)")
"""Waiting in the database would hold a snapshot, and the build waits for all snapshots."""
_OLDEST_TRANSACTION: Final = text(
    "SELECT pid, application_name AS name, coalesce(host(client_addr), 'this machine') AS host, xact_start AS since"
    " FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL"
    " ORDER BY xact_start LIMIT 1"
)
_INDEXES: Final = text(
    "SELECT relname AS name, indisvalid AND coalesce(obj_description(oid, 'pg_class'), '') <> :mark AS is_current,"
    " coalesce(obj_description(oid, 'pg_class'), '') = :mark AS is_replaced"
    " FROM pg_index JOIN pg_class ON oid = indexrelid WHERE relnamespace = current_schema()::regnamespace"
)
_FRESH_STATISTICS: Final = text("SELECT pg_stat_clear_snapshot()")
_PROGRESS: Final = text(
    "SELECT phase, coalesce(100 * greatest(blocks_done, tuples_done) / nullif(greatest(blocks_total, tuples_total), 0),"
    " 0) AS percent, nullif(current_locker_pid, 0) AS waits_for FROM pg_stat_progress_create_index"
    " WHERE datname = current_database() AND index_relid = to_regclass(:name)"
)
_CANCEL: Final = text(
    "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active'"
    " AND query = :statement"
)
REPLACED: Final = "circadia: replaced"
"""Comment on an index that a migration has replaced, until it is dropped."""


class IndexChange(NamedTuple):
    """An index to drop, to build, or both."""

    name: str
    drop: bool
    create: Index | None


async def migrate_online(connect: Callable[[], Link]) -> ConnectionFacts:
    """Bring the database to the newest schema; return facts about the connection.

    Raises:
        StartError: it belongs to a newer version, its pooler is too old, live processes do not work with the new
            schema, a table stays locked, or an index cannot be built.
    """
    link = connect()
    try:
        facts = await _apply_revisions(link)
        changes = await link.run(find_index_changes, opens=True)
    finally:
        await link.drop()
    if changes:
        await _IndexBuild(connect(), connect()).run(is_pooled=facts.is_pooled)
    return facts


def find_index_changes(connection: Connection) -> Sequence[IndexChange]:
    """Return what is left to do for the indexes of a database that has this version's schema; nothing on any other."""
    if read_revision(connection) != newest_revision():
        return []  # a newer version may have dropped what this one knows
    present = {row.name: row for row in connection.execute(_INDEXES, {"mark": REPLACED})}
    named = {str(index.name): index for table in metadata.sorted_tables for index in table.indexes}
    missing = [name for name in sorted(named) if name not in present or not present[name].is_current]
    replaced = [name for name in sorted(present) if name not in named and present[name].is_replaced]
    return [
        *(IndexChange(name, drop=name in present, create=named[name]) for name in missing),
        *(IndexChange(name, drop=True, create=None) for name in replaced),
    ]


async def _apply_revisions(link: Link) -> ConnectionFacts:
    reason = ""
    for tries in range(1, _MAX_TRIES + 1):
        milliseconds = _LOCK_MILLISECONDS if tries % 4 else _LONG_LOCK_MILLISECONDS
        opening = (*BEGIN_MIGRATION, _NO_LOCAL_LIMITS, f"SET LOCAL lock_timeout = {milliseconds}")
        try:
            facts = await link.run(read_connection_facts, first=opening, opens=True)
            if facts.loses_statements:
                raise StartError(POOLER_TOO_OLD)
            await link.run(lambda connection: migrate(connection, defers_indexes=True))
            await link.run(do_nothing, first=("COMMIT",))
        except StorageUnavailable as error:
            if not is_contention(error):
                raise
            link.roll_back()
        else:
            return facts
        reason = await link.run(_describe_oldest_transaction, opens=True)
        if tries % 40 == 1:
            _logger.warning("the migration waits for a locked table; %s", reason)
        await asyncio.sleep(_PAUSE_SECONDS)
    raise StartError(f"the migration gave up, since a table stayed locked; {reason}: end it, and start again")


def _describe_oldest_transaction(connection: Connection) -> str:
    row = connection.execute(_OLDEST_TRANSACTION).first()
    if row is None:
        return "no transaction is open any more"
    return f"the oldest open transaction is of process {row.pid} ({row.name!r} at {row.host}), since {row.since}"


class _IndexBuild:
    """The missing and replaced indexes, which no other process builds or drops at the same time.

    `watch` keeps the lock in a transaction, since a pooler could not keep that of a session; `link` does the work.
    """

    def __init__(self, watch: Link, link: Link) -> None:
        self._watch = watch
        self._link = link

    async def run(self, *, is_pooled: bool) -> None:
        try:
            await self._lock()
            if not is_pooled:  # else the pooler's next client would have no limits
                await self._link.run(lambda connection: connection.execute(_NO_LIMITS), opens=True)
            while changes := await self._query(find_index_changes):
                await self._make(changes[0])
        finally:
            await self._watch.drop()
            await self._link.drop()

    async def _lock(self) -> None:
        await self._watch.run(do_nothing, first=("BEGIN", _NO_LOCAL_LIMITS), opens=True)
        is_locked = await self._query(_try_lock)
        while not is_locked:
            await asyncio.sleep(_LOOK_SECONDS)
            is_locked = await self._query(_try_lock)

    async def _query(self, work: Work[T]) -> T:
        """Query beside the build. The last statement frees the snapshot, which a prepared one keeps until the next."""
        result = await self._watch.run(work)
        await self._watch.run(do_nothing, first=("SELECT 1",))
        return result

    async def _make(self, change: IndexChange) -> None:
        if (progress := await self._read_progress(change.name)) is not None:
            _logger.info("index %s is being built for a process that has ended: %s", change.name, progress)
            await asyncio.sleep(_LOOK_SECONDS)
            return
        if change.drop:
            await self._execute(change.name, f"DROP INDEX CONCURRENTLY {change.name}")
        if change.create is not None:
            build = str(CreateIndex(change.create).compile(dialect=postgresql.dialect()))
            await self._execute(change.name, build.replace(" INDEX ", " INDEX CONCURRENTLY ", 1))

    async def _execute(self, name: str, statement: str) -> None:
        """Run a statement and report its progress; end it in the database if this process is to stop."""
        _logger.info("%s", statement)
        work = asyncio.ensure_future(
            self._link.run(lambda connection: connection.exec_driver_sql(statement), opens=True)
        )
        try:
            while not (await asyncio.wait((work,), timeout=_REPORT_SECONDS))[0]:
                _logger.info("index %s: %s", name, await self._read_progress(name) or "waiting")
            await work
        except (CircadiaError, DBAPIError) as error:
            reason = error.message if isinstance(error, CircadiaError) else str(error.driver_exception)
            raise StartError(f"cannot build or drop the index {name!r}: {reason}") from error
        finally:
            if not work.done():
                await self._query(lambda connection: connection.execute(_CANCEL, {"statement": statement}))
                await asyncio.gather(work, return_exceptions=True)

    async def _read_progress(self, name: str) -> str | None:
        """Return how far the build of an index is; none if nobody builds it."""

        def read(connection: Connection) -> str | None:
            connection.execute(_FRESH_STATISTICS)
            row = connection.execute(_PROGRESS, {"name": name}).first()
            if row is None:
                return None
            waits = f", waits for process {row.waits_for}" if row.waits_for is not None else ""
            return f"{row.phase}, {row.percent} %{waits}"

        return await self._query(read)


def _try_lock(connection: Connection) -> bool:
    return bool(connection.scalar(_TRY_LOCK_OF_BUILDS))
