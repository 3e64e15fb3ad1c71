"""On what the figures were measured."""

import os
import platform
import shutil
import sqlite3
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import psutil

_LIBRARIES = ("uvicorn", "uvloop", "aiohttp", "sqlalchemy", "fastapi")


def machine() -> dict[str, str]:
    """Return the machine, the versions and the date."""
    memory = psutil.virtual_memory().total / 2**30
    libraries = ", ".join(f"{name} {version(name)}" for name in _LIBRARIES)
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "processor": f"{_processor()}, {os.cpu_count()} cores, {memory:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}, SQLite {sqlite3.sqlite_version}",
        "circadia": f"{version('circadia')} ({_commit()})",
        "libraries": libraries,
        "load": f"{os.getloadavg()[0]:.1f} processes wanted a core in the last minute",
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _commit() -> str:
    git = shutil.which("git")
    if git is None:
        return "commit unknown"
    done = subprocess.run(
        [git, "describe", "--always", "--dirty"], capture_output=True, check=False, cwd=Path(__file__).parent, text=True
    )
    return done.stdout.strip() or "commit unknown"
