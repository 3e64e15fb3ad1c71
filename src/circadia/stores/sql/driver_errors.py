"""Translates driver errors into the program's own."""

import sqlite3
import ssl
import sys
from types import TracebackType
from typing import Any, Final

from sqlalchemy import exc

from circadia.errors import CircadiaError, Conflict, InvalidRequest, StorageUnavailable

_MISTAKES: Final = (sqlite3.ProgrammingError, sqlite3.NotSupportedError)
_OF_VALUES: Final = (sqlite3.DataError, ValueError, OverflowError)
"""Values that the server refused or the driver could not encode."""
DAMAGED: Final = "its files are damaged; restore a backup"
_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
BUSY: Final = "another request is changing the same agent, thread or bank; send this one again"


class wrap_driver_errors:
    """Raises driver errors as Circadia's own; programming mistakes in a statement pass unchanged.

    `driver` lists the driver's exceptions. It is entered for each statement, so it is no generator.

    Raises:
        Conflict: a constraint rejects the row.
        InvalidRequest: the database cannot store a value.
        StorageUnavailable: any other error; a retry may succeed.
    """

    __slots__ = ("_database", "_errors")

    def __init__(self, database: str, *driver: type[Exception]) -> None:
        self._database = database
        self._errors = (exc.DBAPIError, exc.InvalidRequestError, UnicodeEncodeError, OverflowError, OSError, *driver)

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, self._errors):
            cause = error.driver_exception if isinstance(error, exc.DBAPIError) else error
            if not isinstance(cause, _MISTAKES) and not _is_of_asyncpg(cause, "SyntaxOrAccessError"):
                raise _translate(self._database, cause) from error


def is_refusal(error: BaseException) -> bool:
    """Return whether the database refuses the connection as it is configured, so that waiting does not help."""
    cause = error.__cause__
    cause = cause.driver_exception if isinstance(cause, exc.DBAPIError) else cause
    return isinstance(cause, ssl.SSLCertVerificationError) or _is_of_asyncpg(
        cause, "InvalidAuthorizationSpecificationError", "InvalidCatalogNameError", "ClientConfigurationError"
    )


def is_contention(error: BaseException) -> bool:
    """Return whether the database works, and another transaction held a lock for too long or in a circle."""
    cause = error.__cause__
    cause = cause.driver_exception if isinstance(cause, exc.DBAPIError) else cause
    return _is_of_asyncpg(cause, "LockNotAvailableError", "DeadlockDetectedError")


def is_interrupted(error: BaseException) -> bool:
    """Return whether the database ended the statement because it took too long."""
    cause = error.__cause__
    if isinstance(cause, exc.DBAPIError):
        cause = cause.driver_exception
    if isinstance(cause, sqlite3.OperationalError):
        return cause.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT
    return _is_of_asyncpg(cause, "QueryCanceledError")


def is_damage(error: BaseException | None) -> bool:
    """Return whether the database has found that its own files are damaged."""
    while error is not None:
        if isinstance(error, sqlite3.DatabaseError) and hasattr(error, "sqlite_errorcode"):  # the module's own lack it
            return error.sqlite_errorcode & 0xFF in _DAMAGED
        if _is_of_asyncpg(error, "DataCorruptedError", "IndexCorruptedError"):
            return True
        error = error.__cause__
    return False


def build_unavailable_error(database: str, error: BaseException) -> StorageUnavailable:
    """Return the error of a database that cannot work now, with the driver's message in brackets."""
    if _is_of_asyncpg(error, "LockNotAvailableError"):
        return StorageUnavailable(BUSY, retry_after_seconds=1.0)
    message, why = _describe_error(error), ""
    if "disk is full" in message or "No space left" in message:
        why = ": its disk is full; make room"
    elif is_damage(error):
        why = f": {DAMAGED}"
    elif "readonly database" in message or "unable to open database file" in message:
        why = ": its file or folder may not be opened or written; check their owner and mode"
    elif "disk I/O error" in message:
        why = ": its disk accepts no more writes; check its quota and health"
    return StorageUnavailable(f"{database} does not answer{why} ({message})", retry_after_seconds=1.0)


def _translate(database: str, error: Exception) -> CircadiaError:
    if isinstance(error, sqlite3.IntegrityError) or _is_of_asyncpg(error, "IntegrityConstraintViolationError"):
        return Conflict(f"this conflicts with stored rows: {_describe_error(error)}")
    if isinstance(error, _OF_VALUES) or _is_of_asyncpg(error, "DataError"):
        return InvalidRequest(f"{database} cannot store this value: {_describe_error(error)}")
    return build_unavailable_error(database, error)


def _describe_error(error: BaseException) -> str:
    """Return the message without the row or value in asyncpg's errors, which may be secret."""
    if _is_of_asyncpg(error, "DataError") and error.__cause__ is not None:
        return str(error.__cause__)  # why the value could not be encoded; asyncpg's own message shows the value
    if _is_of_asyncpg(error, "PostgresError"):
        return str(error.args[0])  # the row comes after it
    return str(error) or type(error).__name__


def _is_of_asyncpg(error: BaseException | None, *kinds: str) -> bool:
    """Return whether it is one of asyncpg's errors. A server on SQLite does not load asyncpg, and gets none of them."""
    asyncpg: Any = sys.modules.get("asyncpg")
    return asyncpg is not None and isinstance(error, tuple(getattr(asyncpg, kind) for kind in kinds))
