"""A coding agent that reads and edits a file all the time: `busy_writer.py FILE replace|append`.

It adds numbered lines, by a whole new file or in place, until its input ends. In between it reads the file one to
30,000 times, as often few as many: on a machine of any speed, a dream comes between edits and an edit into a dream. It
prints how many lines it has added. It fails if it ever finds no file, or half a line.
"""

import os
import random
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


def edit_until_input_ends(path: Path, how: str) -> int:
    number = 0
    print("writes", flush=True)
    while not select.select([sys.stdin], [], [], 0)[0]:
        add_line(path, f"- edit {number}\n".encode(), how)
        number += 1
        for _ in range(int(30_000 ** random.random())):
            assert path.read_bytes().endswith(b"\n")
    return number


if __name__ == "__main__":
    print(edit_until_input_ends(Path(sys.argv[1]), sys.argv[2]), flush=True)
