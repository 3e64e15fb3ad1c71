"""The diary of a folder's dreams, `.circadia/diary.md`: a line for each, in plain words (DREAM-24)."""

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Final

from circadia.sleeptime.markdown.anchored_folder import OWN_FOLDER, open_anchored

DIARY_FILE: Final = "diary.md"


def append_to_diary(root: Path, now: datetime, text: str) -> None:
    """Add a line with the time."""
    line = f"* {now:%Y-%m-%d %H:%M} UTC: {' '.join(text.split())}\n"
    with open_anchored(root) as folder, folder.open_folder(PurePosixPath(OWN_FOLDER)) as own:
        handle = own.file(DIARY_FILE).open(os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        with os.fdopen(handle, "ab") as file:
            file.write(line.encode())


def read_diary(root: Path) -> Sequence[str]:
    """Return the lines, oldest first."""
    with open_anchored(root) as folder:
        data = folder.read_file(PurePosixPath(OWN_FOLDER, DIARY_FILE)) or b""
    return [line.removeprefix("* ") for line in data.decode("utf-8", "replace").splitlines()]
