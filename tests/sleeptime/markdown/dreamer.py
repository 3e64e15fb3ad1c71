"""A program that takes the lock of a folder, says so, and holds it until its input ends: `dreamer.py FOLDER [BEAT]`."""

import sys
from pathlib import Path

from circadia.clock import SystemClock
from circadia.errors import Conflict
from circadia.sleeptime.markdown.folder_lock import lock_memory_folder

if __name__ == "__main__":
    sys.stdin.readline()
    try:
        with lock_memory_folder(Path(sys.argv[1]), SystemClock(), beat_seconds=float(sys.argv[2])):
            print("holds", flush=True)
            sys.stdin.readline()
    except Conflict as error:
        print(error.message, flush=True)
