"""What a process and its children use, processor time and memory; and how they end."""

import asyncio
import contextlib
from collections.abc import Generator
from typing import Final

import psutil

GONE_SECONDS: Final = 10.0
"""How long is waited for killed processes; one that waits for a disk takes its time."""


def cpu_seconds(pid: int) -> float:
    """Return user and system time of the process and its living children."""
    total = 0.0
    for process in _tree(pid):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def memory_bytes(pid: int) -> int:
    """Return the resident memory of the process and its children."""
    total = 0
    for process in _tree(pid):
        try:
            total += process.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total


async def stop(process: asyncio.subprocess.Process, seconds: float) -> None:
    """End a process: politely, and by force if that takes longer."""
    if process.returncode is None:
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), seconds)
    except TimeoutError:
        process.kill()
        await process.wait()


@contextlib.contextmanager
def kills_children() -> Generator[None]:
    """Kill all that this process has started within the block and that still runs, and wait until it is gone."""
    before = set(psutil.Process().children(recursive=True))
    try:
        yield
    finally:
        children = [child for child in psutil.Process().children(recursive=True) if child not in before]
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        psutil.wait_procs(children, timeout=GONE_SECONDS)


def _tree(pid: int) -> list[psutil.Process]:
    root = psutil.Process(pid)
    return [root, *root.children(recursive=True)]
