"""What a process and its children use: processor time and memory."""

import psutil


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


def _tree(pid: int) -> list[psutil.Process]:
    root = psutil.Process(pid)
    return [root, *root.children(recursive=True)]
