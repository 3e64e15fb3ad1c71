"""The data folder: its lock, which admits one server, and the operator's token."""

import fcntl
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from circadia.errors import StartError
from circadia.ids import new_token
from circadia.settings.root import ADMIN_TOKEN_VARIABLES

MIN_TOKEN_CHARACTERS: Final = 16
_REMOVE_TOKEN: Final = "remove it, and the next start makes a new one"
DATABASE_FILE: Final = "circadia.db"
"""Name of the SQLite database in the data folder."""


@contextmanager
def lock_folder(folder: Path) -> Generator[None]:
    """Create the folder and lock it while this process lives. Raises StartError if it is taken or not writable."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        itself = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StartError(
            f"cannot write to the data folder {str(folder)!r}: {error.strerror}; name another with --data"
        ) from error
    try:
        _lock_file(handle, itself, folder)
        yield
    finally:
        os.close(handle)
        os.close(itself)


def _lock_file(handle: int, itself: int, folder: Path) -> None:
    """Lock the file, which names the process, and the folder, where somebody may remove the file."""
    try:
        for each in (handle, itself):
            fcntl.flock(each, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        owner = os.pread(handle, 32, 0).decode("ascii", "replace").strip() or "unknown"
        raise StartError(
            f"another Circadia server (process {owner}) uses the data folder {str(folder)!r}; "
            "stop it, or name another folder with --data"
        ) from error
    try:
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
    except OSError as error:
        raise StartError(f"cannot write to the data folder {str(folder)!r}: {error.strerror}") from error


def load_admin_tokens(folder: Path, environment: Mapping[str, str]) -> tuple[tuple[str, ...], bool]:
    """Return the operator's tokens and whether the first is new: from the environment, else from `admin.token`.

    Store a new one with `keep_admin_token` once the server can show it. A second one is accepted too, for a rotation.

    Raises:
        StartError: the file cannot be read, or a given token is too short to be safe.
    """
    given = {name: token for name in ADMIN_TOKEN_VARIABLES if (token := environment.get(name))}
    for name, token in given.items():
        if len(token) < MIN_TOKEN_CHARACTERS:
            raise StartError(f"{name} has fewer than {MIN_TOKEN_CHARACTERS} characters; use `openssl rand -hex 32`")
    first, second = ADMIN_TOKEN_VARIABLES
    others = (given[second],) if second in given else ()
    if first in given:
        return (given[first], *others), False
    kept = read_admin_token(folder)
    return (kept or new_token("admin"), *others), kept is None


def read_admin_token(folder: Path) -> str | None:
    """Return the token in `admin.token`, or None. Raises StartError if it cannot be read or is too short."""
    path = folder / "admin.token"
    try:
        if not path.exists():
            return None
        token = path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise StartError(f"cannot read {str(path)!r}: {error}; {_REMOVE_TOKEN}") from error
    if len(token) < MIN_TOKEN_CHARACTERS:
        raise StartError(f"{str(path)!r} has fewer than {MIN_TOKEN_CHARACTERS} characters; {_REMOVE_TOKEN}")
    return token


def keep_admin_token(folder: Path, token: str) -> None:
    """Write the operator's token to the data folder, whole and readable by its owner only. Raises StartError."""
    path = folder / "admin.token"
    new = path.with_suffix(".new")
    try:
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(token + "\n")
            file.flush()
            os.fsync(handle)
        new.replace(path)
    except OSError as error:
        raise StartError(f"cannot write {str(path)!r}: {error}") from error
