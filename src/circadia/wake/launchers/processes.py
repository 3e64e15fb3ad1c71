"""The processes of a pulse, found by what their environment says.

A process inherits its environment, so all that a program starts carries the mark of its pulse, in whatever group or
session it hides and whoever its parent is by now. This reads `/proc`, so it works on Linux only; elsewhere nothing is
found, and only the program's own process group can be ended. Not found either is a process that has wiped its
environment and left the program's session and is no child of one that is found.
"""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from circadia.wake.launchers.environment import EPOCH, PULSE

_PROC: Final = Path("/proc")
_ROUNDS: Final = 50
_PAUSE_SECONDS: Final = 0.02


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessInfo:
    """One living process."""

    pid: int
    """Its number, which may be used again after its end."""
    parent: int
    """Its parent's number."""
    session: int
    """Its session's number: that of the process that opened the session."""
    born: int
    """When it started, in ticks since the machine did; tells it from a later one of the same number."""


def find_processes(pulse_id: str, wanted: Callable[[int], bool], *, session: int | None = None) -> list[ProcessInfo]:
    """Return the processes of a pulse whose epoch is `wanted`, those of a session, and all their descendants."""
    living = [process for process in _list_processes() if process.pid not in (1, os.getpid())]
    found = {p.pid for p in living if p.session == session or _is_marked(p.pid, pulse_id, wanted)}
    while more := {p.pid for p in living if p.parent in found} - found:
        found |= more
    return [process for process in living if process.pid in found]


def send_signal(processes: list[ProcessInfo], number: int) -> None:
    """Send a signal to each that is still the same process."""
    for process in processes:
        with suppress(OSError):  # it ended, or is another user's
            handle = os.pidfd_open(process.pid)
            try:
                now = _read_process(process.pid)
                if now is not None and now.born == process.born:
                    signal.pidfd_send_signal(handle, number)
            finally:
                os.close(handle)


def kill_processes(find: Callable[[], list[ProcessInfo]]) -> list[ProcessInfo]:
    """Kill all that `find` returns, and what they start meanwhile; return those that did not end.

    They are frozen first, until a search finds no new one: else one that forks could outrun the search. Blocks for up
    to a second; run it in a thread.
    """
    for _ in range(_ROUNDS):
        found = find()
        if not found:
            return []
        known: set[tuple[int, int]] = set()
        while fresh := [p for p in found if (p.pid, p.born) not in known]:
            send_signal(fresh, signal.SIGSTOP)
            known |= {(p.pid, p.born) for p in fresh}
            found = find()
        send_signal(found, signal.SIGKILL)
        time.sleep(_PAUSE_SECONDS)  # noqa: TID251 - in a thread of its own; the kernel tells nobody else of their end
    return find()


def _list_processes() -> list[ProcessInfo]:
    if not _PROC.is_dir():
        return []
    names = [name for name in os.listdir(_PROC) if name.isdigit()]
    return [process for name in names if (process := _read_process(int(name))) is not None]


def _read_process(pid: int) -> ProcessInfo | None:
    """Return the process, None if it is gone or a zombie; fields of proc_pid_stat(5), counted after the name."""
    try:
        line = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    fields = line[line.rindex(b")") + 2 :].split()
    if fields[0] in (b"Z", b"X"):
        return None
    return ProcessInfo(pid=pid, parent=int(fields[1]), session=int(fields[3]), born=int(fields[19]))


def _is_marked(pid: int, pulse_id: str, wanted: Callable[[int], bool]) -> bool:
    try:
        content = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return False  # gone, or another user's, which no child of ours can become
    variables = content.split(b"\0")
    if f"{PULSE}={pulse_id}".encode() not in variables:
        return False
    start = f"{EPOCH}=".encode()
    epoch = next((each[len(start) :] for each in variables if each.startswith(start)), b"")
    return epoch.isdigit() and wanted(int(epoch))
