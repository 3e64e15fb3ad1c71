"""Where errors of the drivers become the program's own."""

from collections.abc import Generator
from contextlib import contextmanager

from sqlalchemy import exc

from circadia.errors import Conflict, InvalidRequest, StorageUnavailable

_DATA_EXCEPTION = "22"  # the class of SQLSTATE codes for values that the database cannot hold


@contextmanager
def wrapped(database: str, *driver: type[Exception]) -> Generator[None]:
    """Raise what a driver raises as one of ours; a mistake in a statement stays what it is.

    `driver` are the errors that the driver raises where it is called without SQLAlchemy.

    Raises:
        Conflict: A constraint does not allow the row.
        InvalidRequest: The database cannot hold a value.
        StorageUnavailable: Anything that a later try may pass.
    """
    try:
        yield
    except exc.IntegrityError as error:
        raise Conflict(f"the stored rows do not allow this: {error.orig}") from error
    except (UnicodeEncodeError, OverflowError) as error:
        raise InvalidRequest(f"{database} cannot store this value: {error}") from error
    except (exc.ProgrammingError, exc.NotSupportedError):
        raise
    except exc.DBAPIError as error:
        if _of_value(error):
            raise InvalidRequest(f"{database} cannot store this value: {error.orig}") from error
        raise unavailable(database, error.orig or error) from error
    except (exc.InvalidRequestError, OSError, *driver) as error:
        raise unavailable(database, error) from error


def unavailable(database: str, error: BaseException) -> StorageUnavailable:
    """Return the error for a database that does not do its work now."""
    told = str(error) or type(error).__name__
    if "disk is full" in told or "No space left" in told:
        told = f"its disk is full; make room ({told})"
    return StorageUnavailable(f"{database} does not answer: {told}", retry_after_seconds=1.0)


def _of_value(error: exc.DBAPIError) -> bool:
    """Return whether the value is at fault: the server said so, or the driver could not encode it."""
    state = getattr(error.orig, "sqlstate", None)
    refused = isinstance(state, str) and state.startswith(_DATA_EXCEPTION)
    return refused or isinstance(error, exc.DataError) or isinstance(_cause(error), ValueError)


def _cause(error: exc.DBAPIError) -> BaseException | None:
    return None if error.orig is None else error.orig.__cause__
