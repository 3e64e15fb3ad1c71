"""What a folder keeps of its dreams: the state, reports, and the diary with a line for each (DREAM-24).

The state says whether the next one may begin (DREAM-01).
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Any, Final

from pydantic import BaseModel, Field, ValidationError

from circadia.errors import InvalidRequest
from circadia.records.dream_job import DreamMode
from circadia.records.sleep_call import SleepCost
from circadia.sleeptime.markdown.anchored_folder import OWN_FOLDER, open_anchored, open_own_folder, storage_errors

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


STATE_FILE: Final = "dream.json"
BETWEEN: Final = timedelta(hours=24)
"""Least time between two dreams that nobody asked for."""
BETWEEN_SCANS: Final = timedelta(minutes=10)
MIN_SESSIONS: Final = 5
"""New sessions that make a dream due."""
BACK_OFF: Final = timedelta(minutes=30)
"""Pause after a failed dream, doubled for each further one."""
LONGEST_BACK_OFF: Final = timedelta(hours=24)


class DreamState(BaseModel):
    enabled_at: datetime | None = None
    """When a person agreed to dreams over this folder."""
    transcripts: str | None = None
    """The folder of the sessions."""
    mode: DreamMode = DreamMode.PROPOSE
    scanned_at: datetime | None = None
    dreamed_at: datetime | None = None
    """The end of the last dream that did not fail."""
    new_sessions: int = 0
    """Sessions that no dream has read, at the last scan."""
    sessions: dict[str, Any] = Field(default_factory=dict[str, Any])
    """What `sessions.scan` knows of each file of the transcripts."""
    read: dict[str, int] = Field(default_factory=dict[str, int])
    """The last line that a dream has read, by session."""
    bank: str = ""
    """The bank in the folder's database that has read them; another one reads them anew."""
    failures: int = 0
    """Failed dreams in a row."""
    failed_at: datetime | None = None
    trouble: str = ""
    """Why the last dream failed."""
    is_accepted: bool = False
    """Whether a person has accepted a dream; until then dreams propose (DREAM-22)."""
    refused: dict[str, str] = Field(default_factory=dict[str, str])
    """Fingerprints of the upkeep that a person has refused, by file."""


def find_wait_before_scan(state: DreamState, now: datetime) -> str:
    """Return what a dream that nobody asked for waits for before it looks for new sessions; empty for nothing."""
    if state.enabled_at is None:
        return "dreams are not switched on for this folder"
    if state.failures and state.failed_at is not None:
        pause = min(LONGEST_BACK_OFF, BACK_OFF * 2.0 ** (state.failures - 1))
        if now < state.failed_at + pause:
            return f"{count_nouns(state.failures, 'dream')} in a row failed: {state.trouble}"
    if state.dreamed_at is not None and now < state.dreamed_at + BETWEEN:
        return "the last dream is less than 24 hours ago"
    few = find_wait_after_scan(state)
    if few and state.scanned_at is not None and now < state.scanned_at + BETWEEN_SCANS:
        return f"{few} at the last look, less than 10 minutes ago"
    return ""


def find_wait_after_scan(state: DreamState) -> str:
    """Return what it still waits for then."""
    if state.new_sessions >= MIN_SESSIONS:
        return ""
    return f"{count_nouns(state.new_sessions, 'new session')}, of {MIN_SESSIONS} that make a dream due"


def load_state(root: Path) -> DreamState:
    """Return the folder's state; the initial one if it has none. Raises InvalidRequest: the file is damaged."""
    path = root / OWN_FOLDER / STATE_FILE
    with storage_errors(root, "no dream was started"), open_anchored(root) as folder:
        data = folder.read_file(PurePosixPath(OWN_FOLDER, STATE_FILE))
    try:
        return DreamState() if data is None else DreamState.model_validate_json(data)
    except ValidationError as error:
        raise InvalidRequest(f"{path} is damaged: {error.errors()[0]['msg']}; correct it, or delete it") from error


def save_state(root: Path, state: DreamState, **changes: object) -> DreamState:
    """Write the state with these changes, at once or not at all; return it.

    Raises InvalidRequest: a symlink leads out. StorageUnavailable: the disk is full or cannot be written.
    """
    changed = state.model_copy(update=changes)
    with storage_errors(root, "the state of its dreams was not saved"):
        with open_anchored(root) as folder, open_own_folder(folder) as own:
            own.write_atomically(STATE_FILE, changed.model_dump_json(indent=1).encode())
    return changed
