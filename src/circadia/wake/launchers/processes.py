"""The processes of a pulse, found by their environment.

A process inherits its environment, so all processes of a pulse carry its mark, whatever their group, session or parent.
This reads `/proc`, so it works on Linux only; elsewhere only the program's own process group can be ended. A process
escapes if it wipes its environment, leaves the program's session and has no parent that is found.
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
    pid: int
    parent: int
    session: int
    born: int
    """Start time in ticks since boot; distinguishes it from a later process with the same pid."""


def find_processes(pulse_id: str, wanted: Callable[[int], bool], *, session: int | None = None) -> list[ProcessInfo]:
    """Return the pulse's processes whose epoch is `wanted`, those of the session, and all their descendants."""
    living = [process for process in _list_processes() if process.pid not in (1, os.getpid())]
    pids = {p.pid for p in living if p.session == session or _is_marked(p.pid, pulse_id, wanted)}
    while more := {p.pid for p in living if p.parent in pids} - pids:
        pids |= more
    return [process for process in living if process.pid in pids]


def send_signal(processes: list[ProcessInfo], number: int) -> None:
    """Send a signal to those that are still the same process."""
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

    They are frozen until a search finds no new one, since one that forks could outrun the search. Blocks for up to a
    second; run it in a thread.
    """
    for _ in range(_ROUNDS):
        processes = find()
        if not processes:
            return []
        known: set[tuple[int, int]] = set()
        while new_processes := [p for p in processes if (p.pid, p.born) not in known]:
            send_signal(new_processes, signal.SIGSTOP)
            known |= {(p.pid, p.born) for p in new_processes}
            processes = find()
        send_signal(processes, signal.SIGKILL)
        time.sleep(_PAUSE_SECONDS)  # noqa: TID251 - in its own thread; the kernel reports their end to nobody else
    return find()


def _list_processes() -> list[ProcessInfo]:
    if not _PROC.is_dir():
        return []
    names = [name for name in os.listdir(_PROC) if name.isdigit()]
    return [process for name in names if (process := _read_process(int(name))) is not None]


def _read_process(pid: int) -> ProcessInfo | None:
    """Return the process, or None if it is gone or a zombie; fields of proc_pid_stat(5), counted after the name."""
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
    epoch = next((variable[len(start) :] for variable in variables if variable.startswith(start)), b"")
    return epoch.isdigit() and wanted(int(epoch))
