"""What the doctor looks at where state is kept: the data folder, its lock, the database."""

import fcntl
import importlib
import os
import shutil
import stat
import tempfile
from pathlib import Path

from circadia.cli.doctor.check import Check, fail, ok, warn
from circadia.cli.doctor.machine import ClockComparison
from circadia.cli.remote.connection import TOKEN_FILE
from circadia.errors import StorageUnavailable

LOW_BYTES = 2**30
LEAST_BYTES = 100 * 2**20
LOCK_FILE = "lock"
DATABASE_FILE = "circadia.db"


def check_folder(folder: Path) -> list[Check]:
    """Tell whether the data folder can be written and how much room it has."""
    standing = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    if not standing.is_dir():
        return [fail("data folder", f"{str(standing)!r} is no folder", "name another with --data")]
    try:
        with tempfile.TemporaryFile(dir=standing):
            pass
    except OSError as error:
        told = f"{str(folder)!r} cannot be written: {error.strerror}"
        return [fail("data folder", told, "change its owner or mode, or name another with --data")]
    told = f"{str(folder)!r} can be written" if standing == folder else f"{str(folder)!r} will be made"
    free = shutil.disk_usage(standing).free
    found = [judge_room(told, free)]
    token = folder / TOKEN_FILE
    if token.exists() and stat.S_IMODE(token.stat().st_mode) & 0o077:
        remedy = f"chmod 600 {token}, and make a new token if somebody may have seen it: delete the file and restart"
        found.append(warn("admin token", f"others on this machine can read {str(token)!r}", remedy))
    return found


def judge_room(told: str, free_bytes: int) -> Check:
    """Return what so much free disk means."""
    room = f"{told}, {free_bytes / 2**30:.1f} GiB free"
    remedy = "make room: a full disk refuses each call that must be recorded"
    if free_bytes < LEAST_BYTES:
        return fail("data folder", room, remedy)
    return warn("data folder", room, remedy) if free_bytes < LOW_BYTES else ok("data folder", room)


def running_server_pid(folder: Path) -> str | None:
    """Return the process id of the server that uses the folder, or none.

    The lock is tried as a reader for an instant, so two doctors do not take each other for a server.
    """
    try:
        handle = os.open(folder / LOCK_FILE, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return os.pread(handle, 32, 0).decode("ascii", "replace").strip() or "unknown"
    finally:
        os.close(handle)
    return None


async def check_database(folder: Path, url: str | None, watch: ClockComparison) -> list[Check]:
    """Tell whether the database opens and whether this version knows its schema; have its clock compared."""
    file = folder / DATABASE_FILE
    if url is None and not file.exists():
        return [ok("database", f"{str(file)!r} will be made")]
    # The database libraries take a while to load, which no other command should wait for.
    looks = importlib.import_module("circadia.stores.sql.revision")
    version: str
    revision: str | None
    try:
        if url:
            version, revision, theirs = await looks.postgres_revision(url)
            watch.record_database_time(theirs)
        else:
            version, revision = await looks.sqlite_revision(file)
    except StorageUnavailable as error:
        remedy = "check server.database_url and that it runs" if url else "restore it, or move it away to begin anew"
        return [fail("database", error.message, remedy)]
    except ValueError:
        return [fail("database", "server.database_url is malformed", "write postgresql://user@host/database")]
    return [judge_revision(version, revision, *looks.known_revisions())]


def judge_revision(version: str, revision: str | None, head: str, known: frozenset[str]) -> Check:
    """Return what the schema's revision means to this version of the code."""
    if revision is None:
        return ok("database", f"{version}, empty; the first start makes its tables")
    if revision == head:
        return ok("database", f"{version}, schema {revision}, the newest")
    if revision in known:
        return ok("database", f"{version}, schema {revision}; the next start brings it to {head}")
    told = f"{version}, schema {revision!r}, which this version does not know: a newer one has used it"
    return fail("database", told, "install that version, or restore a backup from before")
