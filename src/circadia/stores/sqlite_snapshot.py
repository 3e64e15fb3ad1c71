"""Copies of a SQLite database as one file, while a server may write to it; and how such a copy takes its place."""

import os
import sqlite3
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from circadia.errors import Conflict, InvalidRequest, StorageUnavailable
from circadia.stores.sql.driver_errors import wrap_driver_errors

OnProgress = Callable[[int, int], None]
"""Takes how much is done, and the whole."""

_PAGES: Final = 256
"""Pages between two reports of progress."""
_BESIDE: Final = ("-wal", "-shm")
"""Suffixes of the files that SQLite keeps beside a database."""


@contextmanager
def create_file(file: Path) -> Generator[None]:
    """Create the file for its owner only; remove it if the block fails.

    Raises:
        Conflict: it exists. InvalidRequest: it cannot be created.
    """
    try:
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError as error:
        raise Conflict(f"{str(file)!r} exists; name a new file") from error
    except OSError as error:
        raise InvalidRequest(f"cannot write {str(file)!r}: {error.strerror}") from error
    try:
        yield
    except BaseException:
        file.unlink(missing_ok=True)
        raise


def open_file(file: Path) -> sqlite3.Connection:
    """Open an existing database file; the caller begins and commits."""
    uri = f"{file.absolute().as_uri()}?mode=rw"
    return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)


def write_snapshot(source: Path, file: Path, on_progress: OnProgress) -> None:
    """Copy a database, as it is now, into a new file, and check the copy.

    Writers of the source go on meanwhile: one open read keeps this copy from starting again with each of their commits.

    Raises:
        Conflict: the file exists. InvalidRequest: it cannot be created.
        StorageUnavailable: the source cannot be read, or is damaged.
    """
    with (
        create_file(file),
        wrap_driver_errors("SQLite", sqlite3.Error),
        closing(open_file(source)) as live,
        closing(open_file(file)) as copy,
    ):
        live.execute("BEGIN")
        live.execute("SELECT 1 FROM sqlite_master").fetchone()
        live.backup(copy, pages=_PAGES, progress=lambda _, left, total: on_progress(total - left, total))
        copy.execute("PRAGMA journal_mode = DELETE")  # one file
        (finding,) = copy.execute("PRAGMA integrity_check(1)").fetchone()
        if finding != "ok":
            raise StorageUnavailable(f"{str(source)!r} is damaged ({finding}); no copy was kept")


def replace_database(path: Path, new: Path, aside: Path | None) -> None:
    """Put `new` in the place of a database that nobody uses, and keep the replaced one as `aside`, if there is one.

    Raises:
        InvalidRequest: a file cannot be renamed.
    """
    try:
        if aside is not None:
            with suppress(sqlite3.Error), closing(open_file(path)) as replaced:
                replaced.execute("PRAGMA journal_mode = DELETE")  # one file; a damaged database is kept as it is
            for suffix in ("", *_BESIDE):
                with suppress(FileNotFoundError):
                    os.link(f"{path}{suffix}", f"{aside}{suffix}")
        for suffix in _BESIDE:
            Path(f"{path}{suffix}").unlink(missing_ok=True)
        new.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise InvalidRequest(f"cannot put a file in the place of {str(path)!r}: {error.strerror}") from error
