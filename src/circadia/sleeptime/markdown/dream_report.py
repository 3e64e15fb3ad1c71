"""What a dream did: its report for people, and the diary, `.circadia/diary.md`, with a line for each (DREAM-24)."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Any, Final

from circadia.records.sleep_call import SleepCost
from circadia.sleeptime.markdown.anchored_folder import OWN_FOLDER, open_anchored

NO_COST: Final = SleepCost(calls=0, tokens=0, nanousd=0, seconds=0.0)
DIARY_FILE: Final = "diary.md"


class DreamOutcome(StrEnum):
    UNCHANGED = "unchanged"
    """There is nothing to write."""
    SHOWN = "shown"
    PROPOSED = "proposed"
    PUBLISHED = "published"
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True, slots=True)
class DreamReport:
    id: str
    """Names it in the log; empty if nothing was to be done."""
    state: DreamOutcome
    detail: str = ""
    """Why it failed, or why it asks a person."""
    added: int = 0
    replaced: int = 0
    retired: int = 0
    """Entries that leave without a new one in their place, such as those that stood twice."""
    files: Sequence[PurePosixPath] = ()
    """Files that have changed, or would."""
    view: str = ""
    """The folder or branch that shows a proposal."""
    diff: str = ""
    """Of a dry run."""
    left_out: Sequence[str] = ()
    """What was not written, and why."""
    findings: Sequence[str] = ()
    """What the check of the folder has found."""
    sessions: int = 0
    turns: int = 0
    cost: SleepCost = NO_COST

    def describe(self) -> str:
        facts, files = count_nouns(self.added, "fact"), count_nouns(len(self.files), "file")
        parts = [f"{facts} added, {self.replaced} replaced, {self.retired} retired in {files}"]
        if self.turns:
            parts.insert(0, f"read {count_nouns(self.turns, 'turn')} of {count_nouns(self.sessions, 'session')}")
        if self.cost.calls:
            price = f", ${self.cost.nanousd / 1e9:.4f}" if self.cost.nanousd else ""
            parts.append(f"{count_nouns(self.cost.calls, 'call')}, {count_nouns(self.cost.tokens, 'token')}{price}")
        return f"{self.state}{f' ({self.detail})' if self.detail else ''}: {'; '.join(parts)}"

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id, "state": self.state.value, "detail": self.detail, "added": self.added,
            "replaced": self.replaced, "retired": self.retired, "files": list(map(str, self.files)),
            "view": self.view, "diff": self.diff, "left_out": list(self.left_out), "findings": list(self.findings),
            "sessions": self.sessions, "turns": self.turns, "calls": self.cost.calls, "tokens": self.cost.tokens,
            "usd": self.cost.nanousd / 1e9,
        }  # fmt: skip


def count_nouns(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is one."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def append_to_diary(root: Path, now: datetime, text: str) -> None:
    line = f"* {now:%Y-%m-%d %H:%M} UTC: {' '.join(text.split())}\n"
    with open_anchored(root) as folder, folder.open_folder(PurePosixPath(OWN_FOLDER)) as own:
        handle = own.file(DIARY_FILE).open(os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        with os.fdopen(handle, "ab") as file:
            file.write(line.encode())


def read_diary(root: Path) -> Sequence[str]:
    with open_anchored(root) as folder:
        data = folder.read_file(PurePosixPath(OWN_FOLDER, DIARY_FILE)) or b""
    return [line.removeprefix("* ") for line in data.decode("utf-8", "replace").splitlines()]
