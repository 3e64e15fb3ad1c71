"""A coding agent that edits a file all the time: `busy_writer.py FILE replace|append`.

It adds numbered lines, by a whole new file or in place, until its input ends, and prints how many it has added.
"""

import os
import select
import sys
from pathlib import Path


def add_line(path: Path, line: bytes, how: str) -> None:
    if how == "append":
        with path.open("ab", buffering=0) as file:
            file.write(line)
        return
    draft = path.with_suffix(".tmp")
    draft.write_bytes(path.read_bytes() + line)
    os.replace(draft, path)


if __name__ == "__main__":
    number = 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        add_line(Path(sys.argv[1]), f"- edit {number}\n".encode(), sys.argv[2])
        number += 1
        if number == 10:
            print("writes", flush=True)
    print(number, flush=True)
