"""Where errors of the drivers become the program's own."""

import sqlite3
from types import TracebackType
from typing import Final

import asyncpg
from sqlalchemy import exc

from circadia.errors import CircadiaError, Conflict, InvalidRequest, StorageUnavailable

_CONFLICTS: Final = (sqlite3.IntegrityError, asyncpg.IntegrityConstraintViolationError)
_MISTAKES: Final = (sqlite3.ProgrammingError, sqlite3.NotSupportedError, asyncpg.SyntaxOrAccessError)
_OF_VALUES: Final = (sqlite3.DataError, asyncpg.DataError, ValueError, OverflowError)
"""The server refused the value, or the driver could not encode it."""


class wrap_driver_errors:
    """Raises what a driver raises as one of ours, whoever called it; a mistake in a statement stays what it is.

    `driver` are the errors that the driver has. It is entered for each statement, so it is no generator.

    Raises:
        Conflict: A constraint does not allow the row.
        InvalidRequest: The database cannot hold a value.
        StorageUnavailable: Anything that a later try may pass.
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
            found = error.driver_exception if isinstance(error, exc.DBAPIError) else error
            if not isinstance(found, _MISTAKES):
                raise _translate(self._database, found) from error


def build_unavailable_error(database: str, error: BaseException) -> StorageUnavailable:
    """Return the error for a database that does not do its work now; in brackets stands what the driver says of it."""
    told, why = _describe_error(error), ""
    if "disk is full" in told or "No space left" in told:
        why = ": its disk is full; make room"
    elif "disk I/O error" in told:
        why = ": its disk takes nothing more; see whether it is over a quota or broken"
    return StorageUnavailable(f"{database} does not answer{why} ({told})", retry_after_seconds=1.0)


def _translate(database: str, error: Exception) -> CircadiaError:
    if isinstance(error, _CONFLICTS):
        return Conflict(f"the stored rows do not allow this: {_describe_error(error)}")
    if isinstance(error, _OF_VALUES):
        return InvalidRequest(f"{database} cannot store this value: {_describe_error(error)}")
    return build_unavailable_error(database, error)


def _describe_error(error: BaseException) -> str:
    """Return its message without the row or the value that asyncpg tells: these may be secret."""
    if isinstance(error, asyncpg.DataError) and error.__cause__ is not None:
        return str(error.__cause__)  # why it could not encode the value, which its own message shows
    if isinstance(error, asyncpg.PostgresError):
        return str(error.args[0])  # the row comes after it
    return str(error) or type(error).__name__
