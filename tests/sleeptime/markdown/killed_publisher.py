"""A program that stages and publishes a dream and is killed on the way: `killed_publisher.py FOLDER ID local|network`.

It reads numbers from its input. For each, a child of it publishes, and gets SIGKILL after so many lines of the modules
that touch files. The program answers `killed`, or `ended` where there were fewer lines. With `network`, the system
refuses to exchange two files, as it does on NFS.
"""

import ctypes
import errno
import os
import platform
import signal
import struct
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from circadia.sleeptime.markdown import anchored_folder, changeset, git_repository, publication
from tests.sleeptime.markdown.folder_changes import stage_now

OLD = {"MEMORY.md": b"- [Build](build.md)\n", "build.md": b"- use make\n", "gone/a.md": b"old"}
NEW: dict[str, bytes | None] = {
    "MEMORY.md": b"- [Tests](tests/unit.md)\n", "build.md": b"- use ninja\n", "tests/unit.md": b"new",
    "gone/a.md": None,
}  # fmt: skip
FILES = {module.__file__ for module in (anchored_folder, changeset, git_repository, publication)}


class LineCounter:
    """Kills its own process after `left` lines of `FILES`."""

    def __init__(self, left: int) -> None:
        self.left = left

    def trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename not in FILES:
            return None
        if event == "line":
            self.left -= 1
            if self.left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return self.trace


def publish_until(root: Path, changeset_id: str, lines: int) -> None:
    """Publish in this process, what is not staged after staging it, and die on the way."""
    sys.settrace(LineCounter(lines).trace)
    if not (root / ".circadia" / "dreams" / changeset_id).exists():
        stage_now(root, changeset_id, NEW)
    publication.publish(root, changeset_id)
    sys.settrace(None)


def forbid_exchange() -> None:
    """Let the system answer EINVAL to `renameat2` in this process (linux/seccomp.h, linux/filter.h)."""
    number = {"x86_64": 316, "aarch64": 276}[platform.machine()]
    steps = ((0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x00050000 | errno.EINVAL), (0x06, 0, 0, 0x7FFF0000))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.prctl(22, 2, program, 0, 0) == 0


if __name__ == "__main__":
    if sys.argv[3] == "network":
        forbid_exchange()
    for text in sys.stdin:
        child = os.fork()
        if child == 0:
            publish_until(Path(sys.argv[1]), sys.argv[2], int(text))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print("killed" if os.WIFSIGNALED(status) else f"ended {os.waitstatus_to_exitcode(status)}", flush=True)
