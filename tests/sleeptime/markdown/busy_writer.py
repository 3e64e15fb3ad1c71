"""A coding agent that reads and edits a file all the time: `busy_writer.py FILE replace|append`.

It adds numbered lines, by a whole new file or in place, and reads the file one to 30,000 times in between, as often few times
as many (so that a dream comes between its edits, and an edit into a dream, on a machine of any speed), until its input
ends. It prints how many lines it has added. It fails if it ever finds no file, or half a line.
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
