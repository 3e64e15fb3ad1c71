"""Checks of the storage: the data folder, its lock, the database."""

import fcntl
import importlib
import os
import shutil
import stat
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from circadia.cli.connection import TOKEN_FILE
from circadia.cli.doctor.machine import Check, ClockComparison, fail, ok, warn
from circadia.errors import ConfigError, StorageUnavailable
from circadia.records.member import Member, find_conflicts
from circadia.server.folder import DATABASE_FILE
from circadia.settings import Settings
from circadia.settings.root import fingerprint
from circadia.settings.server import ServerSettings

LOW_FREE_BYTES = 2**30
MIN_FREE_BYTES = 100 * 2**20
LOCK_FILE = "lock"
DAMAGE_SECONDS = 10.0
"""Longest check of the database's pages; it takes about 2 s a GiB."""
RESTORE = "restore it (`circadia restore`), or move it away to start afresh"


def check_folder(folder: Path) -> list[Check]:
    """Check whether the data folder can be written and how much free disk it has."""
    existing = next(ancestor for ancestor in (folder, *folder.absolute().parents) if ancestor.exists())
    if not existing.is_dir():
        return [fail("data folder", f"{str(existing)!r} is no folder", "name another with --data")]
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        message = f"{str(folder)!r} cannot be written: {error.strerror}"
        return [fail("data folder", message, "change its owner or mode, or name another with --data")]
    message = f"{str(folder)!r} can be written" if existing == folder else f"{str(folder)!r} will be created"
    free = shutil.disk_usage(existing).free
    checks = [judge_room(message, free)]
    token = folder / TOKEN_FILE
    if token.exists() and stat.S_IMODE(token.stat().st_mode) & 0o077:
        remedy = f"chmod 600 {token}; if somebody may have seen it, delete the file and restart for a new token"
        checks.append(warn("admin token", f"others on this machine can read {str(token)!r}", remedy))
    return checks


def judge_room(message: str, free_bytes: int) -> Check:
    """Judge the free disk."""
    room = f"{message}, {free_bytes / 2**30:.1f} GiB free"
    remedy = "make room: a full disk refuses each call that must be recorded"
    if free_bytes < MIN_FREE_BYTES:
        return fail("data folder", room, remedy)
    return warn("data folder", room, remedy) if free_bytes < LOW_FREE_BYTES else ok("data folder", room)


def running_server_pid(folder: Path) -> str | None:
    """Return the process id of the server that uses the folder, or None.

    The check takes a shared lock for an instant, so that two doctors do not mistake each other for a server.
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


async def check_database(folder: Path, settings: Settings, watch: ClockComparison) -> list[Check]:
    """Check whether the database opens and this version knows its schema; record the database's time."""
    server = settings.server
    url, file = server.database_url, folder / DATABASE_FILE
    checks: list[Check] = []
    if url is None and not file.exists():
        return [ok("database", f"{str(file)!r} will be created")]
    # Imported here because the database libraries take a while to load.
    revisions = importlib.import_module(f"circadia.stores.sql.{'postgres_' if url else ''}revision")
    newest: str = importlib.import_module("circadia.stores.sql.revisions").newest_revision()
    version: str
    revision: str | None
    works_with: str | None
    try:
        if url:
            version, (revision, works_with), theirs, facts = await revisions.postgres_revision(url)
            watch.record_database_time(theirs)
            checks.append(_judge_connections(server, *facts))
            if revision == newest:
                checks += judge_members(await revisions.read_live_members(url), fingerprint(settings))
        else:
            version, (revision, works_with) = await revisions.sqlite_revision(file)
            damage = await revisions.find_damage(file, DAMAGE_SECONDS)
            if damage is not None:
                return [fail("database", f"{str(file)!r} is damaged: {damage}", RESTORE)]
    except StorageUnavailable as error:
        remedy = "check server.database_url and that it runs" if url else RESTORE
        return [fail("database", error.message, remedy)]
    except ValueError:
        return [fail("database", "server.database_url is malformed", "write postgresql://user@host/database")]
    return [judge_revision(version, revision, works_with, newest), *checks]


def judge_members(members: Sequence[Member], own: str) -> list[Check]:
    """Judge the servers that share the database; `own` is the fingerprint of the configuration that is checked."""
    if not members:
        return []
    checks = [warn("cluster", conflict, "compare them with `circadia cluster`") for conflict in find_conflicts(members)]
    if not checks and {member.config_check for member in members} != {own}:
        message = f"{len(members)} servers run another configuration than the one that was checked here"
        checks.append(warn("cluster", message, "give all the same circadia.yaml, and restart them"))
    return checks or [ok("cluster", f"{len(members)} servers run this configuration")]


async def check_redis(settings: Settings, environment: Mapping[str, str]) -> list[Check]:
    """Check whether each Redis of the settings answers."""
    if not any((settings.signals, settings.signals_env, settings.redis_bridge.url, settings.redis_bridge.url_env)):
        return []
    # Imported here because the libraries take a while to load.
    wiring = importlib.import_module("circadia.server.cluster_wiring")
    connection = importlib.import_module("circadia.stores.redis_connection")
    checks: list[Check] = []
    for what, resolve in (("signals", wiring.resolve_signals_url), ("redis_bridge", wiring.resolve_bridge_url)):
        try:
            url: str | None = resolve(settings, environment)
            if url is None:
                continue
            async with connection.open_redis(url, "circadia doctor") as redis:
                with connection.wrap_redis_errors():
                    await redis.ping()
        except ConfigError as error:
            checks.append(fail(what, error.message, "correct the configuration or the environment"))
        except StorageUnavailable as error:
            checks.append(warn(what, error.message, f"check the URL of {what!r} and that Redis runs"))
        else:
            checks.append(ok(what, "Redis answers"))
    return checks


def _judge_connections(server: ServerSettings, is_pooled: bool, loses_statements: bool, most: int) -> Check:
    if loses_statements:
        remedy = "use PgBouncer 1.21 or newer with max_prepared_statements = 200, or connect directly"
        return fail("connections", "a pooler without prepared statements is before PostgreSQL", remedy)
    if is_pooled:
        return ok("connections", "through a pooler; each server opens one to PostgreSQL itself, for signals")
    opened = server.connections
    message = f"each server opens up to {opened} connections; PostgreSQL allows {most} for all together"
    if opened > most:
        return fail("connections", message, "lower server.readers and server.writers, or raise max_connections")
    return ok("connections", message)


def judge_revision(version: str, revision: str | None, works_with: str | None, newest: str) -> Check:
    """Judge the schema's revision for this version of the code; `works_with` is the oldest that works with it."""
    if revision is None:
        return ok("database", f"{version}, empty; the first start creates its tables")
    if revision == newest:
        return ok("database", f"{version}, schema {revision}, the newest")
    if revision < newest:
        return ok("database", f"{version}, schema {revision}; the next start upgrades it to {newest}")
    if works_with is not None and works_with <= newest:
        return ok("database", f"{version}, schema {revision} of a newer version, with which this one works")
    message = f"{version}, schema {revision!r}, with which this version does not work: a newer one has used it"
    return fail("database", message, "install that version, or restore an older backup")
