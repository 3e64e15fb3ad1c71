"""What a folder remembers of its dreams, in `.circadia/dream.json`, and whether the next one may begin (DREAM-01)."""

from datetime import datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from circadia.errors import InvalidRequest
from circadia.records.dream_job import DreamMode
from circadia.sleeptime.markdown.anchored_folder import OWN_FOLDER, open_anchored, open_own_folder, storage_errors
from circadia.sleeptime.markdown.dream_report import count_nouns

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
    model_config = ConfigDict(extra="ignore")

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


class DreamVerdict(NamedTuple):
    is_open: bool
    detail: str
    """What the dream waits for; if it may begin, how much it would read."""


def decide_scan(state: DreamState, now: datetime) -> DreamVerdict:
    """Return whether it is time to look for new sessions: the gates of a dream, the cheapest first."""
    if state.enabled_at is None:
        return DreamVerdict(False, "dreams are not switched on for this folder")
    if state.failures and state.failed_at is not None:
        pause = min(LONGEST_BACK_OFF, BACK_OFF * 2.0 ** (state.failures - 1))
        if now < state.failed_at + pause:
            return DreamVerdict(False, f"{count_nouns(state.failures, 'dream')} in a row failed: {state.trouble}")
    if state.dreamed_at is not None and now < state.dreamed_at + BETWEEN:
        return DreamVerdict(False, "the last dream is less than 24 hours ago")
    few = state.new_sessions < MIN_SESSIONS
    if few and state.scanned_at is not None and now < state.scanned_at + BETWEEN_SCANS:
        return DreamVerdict(False, f"{_count_sessions(state)} at the last look, less than 10 minutes ago")
    return DreamVerdict(True, "")


def decide_dream(state: DreamState) -> DreamVerdict:
    """Return whether a dream that nobody asked for may begin, after a scan."""
    if state.new_sessions < MIN_SESSIONS:
        return DreamVerdict(False, _count_sessions(state))
    return DreamVerdict(True, count_nouns(state.new_sessions, "new session"))


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


def _count_sessions(state: DreamState) -> str:
    return f"{count_nouns(state.new_sessions, 'new session')}, of {MIN_SESSIONS} that make a dream due"
