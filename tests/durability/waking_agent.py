"""An agent for one pulse: it notes that it runs, and that no other does for the same agent, until a file says `go`.

Its argument is the folder of its notes.
"""

import fcntl
import os
import sys
import time
from pathlib import Path


def main(folder: Path) -> None:
    """Run."""
    agent, pulse = os.environ["CIRCADIA_AGENT"], os.environ["CIRCADIA_PULSE_ID"]
    sys.stdin.read()
    with (folder / f"{agent}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _note(folder, "overlap", agent, pulse)
            raise SystemExit(1) from None
        _note(folder, "start", agent, pulse)
        while not (folder / "go").exists():
            time.sleep(0.02)
        _note(folder, "done", agent, pulse)


def _note(folder: Path, what: str, agent: str, pulse: str) -> None:
    with (folder / "notes").open("a") as notes:
        notes.write(f"{what} {agent} {pulse} {os.getpid()}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
