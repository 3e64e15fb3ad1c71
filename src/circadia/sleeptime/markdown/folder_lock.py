"""The lock that admits one dreamer to a memory folder, over processes and over machines that share the disk.

The lock is the file with the highest number in `.circadia/lock/`. Taking over means to make the next number, which a
file system grants to one taker only, and the highest number is never removed. So no two takers both hold it, without a
lock service. The holder keeps a kernel lock on its file, by which its own machine sees its death at once.
"""

import fcntl
import os
import re
import secrets
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Final

from circadia.clock import Clock
from circadia.errors import Conflict
from circadia.sleeptime.markdown.anchored_folder import (
    OWN_FOLDER,
    AnchoredFolder,
    FileLocation,
    open_anchored,
    open_own_folder,
    storage_errors,
)

STALE_SECONDS: Final = 60 * 60
"""Without a beat for so long, a holder counts as dead."""
BEAT_SECONDS: Final = 60.0
_LOCK_FOLDER: Final = "lock"
_NUMBER: Final = re.compile(r"\d{12}")


class FolderLock:
    """The lock of a memory folder, held by this process."""

    def __init__(self, root: Path, folder: AnchoredFolder, number: str, handle: int) -> None:
        self._root = root
        self._folder = folder
        self._number = number
        self._handle = handle

    def confirm(self) -> None:
        """Raise Conflict if another dreamer has taken over. Call it before each publication."""
        if _list_numbers(self._folder)[-1:] != [self._number]:
            raise Conflict(
                f"another dreamer has taken over {str(self._root)!r}, because this one gave no beat for an hour; "
                "nothing was published; start the dream again"
            )

    def beat_until(self, ended: threading.Event, beat_seconds: float) -> None:
        while not ended.wait(beat_seconds):
            with suppress(OSError):  # a share that is away for a moment; without beats for an hour the lock is lost
                os.utime(self._handle)


@contextmanager
def lock_memory_folder(root: Path, clock: Clock, *, beat_seconds: float = BEAT_SECONDS) -> Generator[FolderLock]:
    """Hold the lock of the memory folder `root`, and renew its beat from a thread.

    Raises:
        Conflict: another dreamer holds it; the message names it.
        InvalidRequest: there is no such folder.
        StorageUnavailable: the lock cannot be written.
    """
    host = socket.gethostname()
    holder = f"{host}\nprocess {os.getpid()} on {host!r}, since {clock.now():%Y-%m-%d %H:%M:%S} UTC,"
    with ExitStack() as opened:
        with storage_errors(root, "no dream was started"):
            folder = opened.enter_context(open_own_folder(opened.enter_context(open_anchored(root)), _LOCK_FOLDER))
            draft = folder.file(f"draft-{secrets.token_hex(8)}")
            try:
                draft.create(holder.encode(), 0o600)
                handle = draft.open(os.O_RDWR)
                opened.callback(os.close, handle)
                with suppress(OSError):  # a disk without kernel locks: the beat alone counts
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                number = _take_number(root, folder, draft)
            finally:
                draft.remove()
        lock = FolderLock(root, folder, number, handle)
        ended = threading.Event()
        beat = threading.Thread(target=lock.beat_until, args=(ended, beat_seconds), daemon=True)
        beat.start()
        try:
            yield lock
        finally:
            ended.set()
            beat.join()
            with suppress(OSError):  # the kernel lock ends all the same
                os.ftruncate(handle, 0)  # released; the file stays, so that its number is never given twice


def _take_number(root: Path, folder: AnchoredFolder, draft: FileLocation) -> str:
    """Make the draft the lock and return its number. Raises Conflict while another one holds it."""
    while True:
        numbers = _list_numbers(folder)
        # By the disk's own clock, so that those of two machines need not agree.
        if numbers and (holder := _find_living(folder.file(numbers[-1]), draft.touch)):
            raise Conflict(f"{holder} dreams over {str(root)!r}; wait until it ends, or stop it")
        number = f"{int(numbers[-1] if numbers else 0) + 1:012}"
        try:
            draft.link(folder.file(number))
        except FileExistsError:
            continue  # another taker was faster: see who it is
        if _list_numbers(folder)[-1] == number:
            break
        folder.file(number).remove()  # the number was old: others have taken and left the folder meanwhile
    for old in numbers:
        folder.file(old).remove()
    folder.flush()
    return number


def find_holder(root: Path, clock: Clock) -> str:
    """Return who dreams over the folder now, empty if nobody does; writes nothing."""
    path = PurePosixPath(OWN_FOLDER, _LOCK_FOLDER)
    with suppress(FileNotFoundError), open_anchored(root) as top, top.open_folder(path) as folder:
        for number in _list_numbers(folder)[-1:]:
            return _find_living(folder.file(number), clock.now().timestamp)
    return ""


def _find_living(lock: FileLocation, read_time: Callable[[], float]) -> str:
    """Return the name of the lock's holder, empty if it is gone or silent."""
    try:
        handle = lock.open(os.O_RDONLY)
    except FileNotFoundError:
        return ""
    with os.fdopen(handle, "rb") as file:
        text = file.read(4096)
        if not text or read_time() - os.fstat(handle).st_mtime >= STALE_SECONDS:
            return ""
        host, _, name = text.decode("utf-8", "replace").partition("\n")
        if host == socket.gethostname():
            with suppress(OSError):  # a shared lock: two takers that look at once do not hinder each other
                fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return ""  # the holder's process is gone
    return name or "another dreamer"


def _list_numbers(folder: AnchoredFolder) -> list[str]:
    return [name for name in folder.list_names() if _NUMBER.fullmatch(name)]
