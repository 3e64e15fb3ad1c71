"""The sessions in a folder of transcripts, and the intake of what was said in them into a bank (DREAM-03, DREAM-10)."""

import asyncio
import logging
import os
import re
import stat
import subprocess
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from circadia.clock import Clock
from circadia.errors import CircadiaError, InvalidRequest
from circadia.memory.capture.attribution import WITHIN, RecentTexts, find_origin
from circadia.memory.capture.fingerprints import READ, fingerprints, pack_hashes
from circadia.memory.capture.recorder import clean_and_shorten
from circadia.memory.context import estimate_tokens
from circadia.memory.episodes import NewEpisode
from circadia.memory.transfer.formats import detect_transcript, read_turns
from circadia.memory.transfer.import_format import ImportFormat
from circadia.memory.transfer.transcripts import TRUST, Speaker, TranscriptFacts, TranscriptTurn, build_episode
from circadia.records.bank import Bank, Trust
from circadia.records.episode import EpisodeKind, Provenance
from circadia.sleeptime.markdown.anchored_folder import OWN_FOLDER
from circadia.sleeptime.markdown.dream_state import DreamState
from circadia.sleeptime.markdown.folder_bank import FolderBank
from circadia.sleeptime.markdown.memory_folder import MEMORY_NAMES

logger = logging.getLogger(__name__)

SETTLED: Final = timedelta(minutes=10)
"""Time without a change after which a transcript counts as complete."""
LONGEST_LINE: Final = 16 * 2**20
"""Bytes of a line; longer ones, such as several pictures, are skipped and counted."""
_SUFFIXES: Final = (".jsonl", ".md")
_EARLIEST: Final = datetime(1, 1, 1, tzinfo=UTC)
_GIT_SECONDS: Final = 10.0
RECENT: Final = timedelta(days=30)
"""The first dream of a folder reads no older sessions."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TranscriptSession:
    id: str
    format: ImportFormat
    path: Path
    root: str | None
    """The folder in which the agent started."""
    last: datetime | None
    last_line: int
    """Line of the newest turn."""
    person_turns: int
    tokens: int
    """About how many the texts of its turns have, without tool calls and results."""
    unknown_lines: int
    broken_lines: int
    excluded: str | None
    """Why the session does not count, None if it does."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _ScannedFile:
    """What a file contained while it had this size and time."""

    size: int
    changed_ns: int
    unfinished: bool
    sessions: Sequence[TranscriptSession]


_SCANNED_FILE: Final = TypeAdapter(_ScannedFile)


def find_sessions(folder: Path, seen: MutableMapping[str, Any], now: datetime) -> Sequence[TranscriptSession]:
    """Return the sessions below a folder, the one with the newest turn last.

    `seen` is JSON that the caller keeps for the next call: files with an unchanged size and time are not read again.

    Raises InvalidRequest: there is no such folder.
    """
    if not folder.is_dir() or not os.access(folder, os.R_OK | os.X_OK):
        raise InvalidRequest(f"{str(folder)!r} is no folder that can be read; name the folder with the transcripts")
    sessions: list[TranscriptSession] = []
    present: set[str] = set()
    for path, status in _find_files(folder):
        key = os.fsencode(path.relative_to(folder)).decode("utf-8", "backslashreplace")
        file = _load_scan(seen.get(key), status)
        if file is None:
            try:
                file = _scan_file(path, key, status)
            except (OSError, CircadiaError) as error:
                logger.warning("transcript %r cannot be read: %s", str(path), error)
                continue
            seen[key] = _SCANNED_FILE.dump_python(file, mode="json")
        present.add(key)
        is_running = file.unfinished or now - datetime.fromtimestamp(status.st_mtime, UTC) < SETTLED
        for session in file.sessions:
            excluded = "the session may still run" if is_running else session.excluded
            sessions.append(replace(session, path=path, excluded=excluded))
    for key in seen.keys() - present:
        del seen[key]
    return sorted(sessions, key=lambda session: (session.last or _EARLIEST, session.id))


def gather(session: TranscriptSession, after_line: int = 0, *, person: str = "user") -> Iterator[NewEpisode]:
    """Yield what the person and the agent said behind a line, redacted and shortened as by the recorder.

    A person's turn that mostly repeats the agent or a tool has their trust, as at the gateway. The times are those of
    the transcript, whatever they are. Raises OSError: the file is gone.
    """
    facts = TranscriptFacts.from_name(session.path)
    file_id = facts.session
    origins = _Origins()
    for turn in _read_turns(session.path, session.format, facts):
        if _session_id(turn, session.format, file_id) != session.id:
            continue
        trust = origins.find_trust(turn)
        if turn.line <= after_line or turn.kind is EpisodeKind.TOOL or turn.speaker is Speaker.PROGRAM:
            continue
        if text := clean_and_shorten(turn.text):
            turn = replace(turn, conversation=session.id)
            yield build_episode(turn, session.format, text, person=person, key=turn.key, trust=trust)


def group_by_project(sessions: Iterable[TranscriptSession]) -> Mapping[str, Sequence[TranscriptSession]]:
    """Return the sessions by project root; worktrees of a git repository are one project."""
    roots: dict[str, str] = {}
    projects: dict[str, list[TranscriptSession]] = {}
    for session in sessions:
        if session.root is not None:
            if session.root not in roots:
                roots[session.root] = find_project_root(session.root)
            projects.setdefault(roots[session.root], []).append(session)
    return projects


def find_project_root(folder: str) -> str:
    """Return the root of the git repository that a folder belongs to, the same for its worktrees; else the folder.

    For a folder that is gone, such as a removed worktree, that of the folder around it.
    """
    path = Path(folder)
    if "\0" in folder or not path.is_absolute():
        return folder
    existing = next((parent for parent in (path, *path.parents) if parent.is_dir()), path)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        answer = subprocess.run(
            ["git", "-C", str(existing), "rev-parse", "--path-format=absolute", "--git-common-dir"],
            capture_output=True, timeout=_GIT_SECONDS, env=environment, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return folder
    repository = Path(os.fsdecode(answer.stdout.rstrip(b"\n")))
    return str(repository.parent if repository.name == ".git" else repository)


class _Origins:
    """Recognises what a person only passes on, among the texts of the last hour of a session.

    Texts between two turns of the person are compared as one, which takes a third of the time.
    """

    def __init__(self) -> None:
        self._texts = RecentTexts()
        self._pending: dict[Speaker, list[str]] = {}
        self._now = _EARLIEST

    def find_trust(self, turn: TranscriptTurn) -> Trust:
        if turn.speaker is Speaker.PERSON:
            for speaker in list(self._pending):
                self._remember(speaker)
        self._now = turn.at or self._now
        self._pending.setdefault(turn.speaker, []).append(turn.text)
        if turn.speaker is not Speaker.PERSON:
            if sum(map(len, self._pending[turn.speaker])) > READ:
                self._remember(turn.speaker)
            return turn.trust
        origin = find_origin(fingerprints(turn.text), self._texts, self._now)
        return turn.trust if origin is None else origin.trust

    def _remember(self, speaker: Speaker) -> None:
        prints = fingerprints("\n".join(self._pending.pop(speaker)))
        new_hashes = pack_hashes(prints.hashes[self._texts.owners(prints) < 0])
        row = Provenance(
            scope="", speaker=speaker, trust=TRUST[speaker], fingerprints=new_hashes, whole=prints.whole,
            expires_at=self._now + WITHIN,
        )  # fmt: skip
        self._texts.add([row])


def _find_files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the files below a folder that may be transcripts, without following links."""
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != OWN_FOLDER)
        for name in sorted(names):
            if name.endswith(_SUFFIXES):
                path = Path(parent, name)
                try:
                    status = path.lstat()
                except OSError:
                    continue  # it was just removed
                if stat.S_ISREG(status.st_mode):
                    yield path, status


def _load_scan(entry: object, status: os.stat_result) -> _ScannedFile | None:
    """Return what the last call read of a file, None if the file has changed since or the entry is not readable."""
    try:
        file = _SCANNED_FILE.validate_python(entry)
    except ValidationError:
        return None
    return file if (file.size, file.changed_ns) == (status.st_size, status.st_mtime_ns) else None


@dataclass(kw_only=True, slots=True)
class _SessionTally:
    last: datetime | None = None
    last_line: int = 0
    person_turns: int = 0
    facts_noted: int = 0
    tokens: int = 0

    def add(self, turn: TranscriptTurn) -> None:
        self.last_line = turn.line
        self.person_turns += turn.speaker is Speaker.PERSON and turn.kind is EpisodeKind.TURN
        self.facts_noted += turn.kind is EpisodeKind.FACT
        if turn.kind is not EpisodeKind.TOOL and turn.speaker is not Speaker.PROGRAM:
            self.tokens += estimate_tokens(turn.text)
        if turn.at is not None:
            self.last = turn.at if self.last is None else max(self.last, turn.at)


def _scan_file(path: Path, key: str, status: os.stat_result) -> _ScannedFile:
    facts = TranscriptFacts.from_name(path)
    file_id = facts.session
    kind = detect_transcript(path)
    if kind is None:
        return _ScannedFile(size=status.st_size, changed_ns=status.st_mtime_ns, unfinished=False, sessions=())
    tallies = {} if kind is ImportFormat.PLAIN else {file_id: _SessionTally()}
    for turn in _read_turns(path, kind, facts):
        tallies.setdefault(_session_id(turn, kind, file_id), _SessionTally()).add(turn)
    sessions = [
        TranscriptSession(
            id=session_id, format=kind, path=Path(key), root=facts.root, last=tally.last, last_line=tally.last_line,
            person_turns=tally.person_turns,
            tokens=tally.tokens, unknown_lines=facts.unknown_lines, broken_lines=facts.broken_lines,
            excluded=_exclusion(tally, facts),
        )
        for session_id, tally in tallies.items()
    ]  # fmt: skip
    return _ScannedFile(
        size=status.st_size, changed_ns=status.st_mtime_ns, unfinished=facts.unfinished, sessions=sessions
    )


def _exclusion(tally: _SessionTally, facts: TranscriptFacts) -> str | None:
    if tally.person_turns or tally.facts_noted:
        return None
    return f"it was started by {facts.started_by}" if facts.started_by else "no person says anything"


def _session_id(turn: TranscriptTurn, kind: ImportFormat, file_id: str) -> str:
    """Return the session of a turn: a file of the plain format may have several, others are one."""
    return turn.conversation or file_id if kind is ImportFormat.PLAIN else file_id


def _read_turns(path: Path, kind: ImportFormat, facts: TranscriptFacts) -> Iterator[TranscriptTurn]:
    return read_turns(path, kind, _read_lines(path, facts), facts)


def _read_lines(path: Path, facts: TranscriptFacts) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as file:
        number = 0
        while line := file.readline(LONGEST_LINE + 1):
            number += 1
            if len(line) <= LONGEST_LINE:
                yield number, line
            else:
                facts.broken_lines += 1
                while line and not line.endswith(b"\n"):
                    line = file.readline(LONGEST_LINE)


def find_memory_folder(path: Path, home: Path) -> Path:
    """Return the memory folder that a person means: that of the project at `path`, if it has one, or `path` itself.

    All worktrees of a git repository share one. Its path has the repository's, with `-` for all but letters and digits.
    """
    if not path.is_dir() or any((path / name).exists() for name in MEMORY_NAMES):
        return path
    name = re.sub(r"[^A-Za-z0-9]", "-", find_project_root(str(path.resolve())))
    folder = home / ".claude" / "projects" / name / "memory"
    return folder if folder.is_dir() else path


def find_transcripts(folder: Path) -> Path | None:
    """Return the folder of the sessions that belong to a memory folder: the one around it, if it has any."""
    around = folder.resolve().parent
    return around if any(around.glob("*.jsonl")) else None


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionCounts:
    sessions: int = 0
    turns: int = 0
    marks: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Changes of the folder's state, unless the dream is a dry run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionScan:
    new: Sequence[TranscriptSession]
    """Sessions with turns that no dream has read, the newest last."""
    excluded: Mapping[str, int]
    """Numbers of other sessions, by the reason."""
    marks: Mapping[str, Any]


class SessionIntake:
    """The sessions of one project in a folder of transcripts."""

    def __init__(self, clock: Clock, transcripts: Path | None, *, project: str | None = None) -> None:
        """Without `transcripts` there are no sessions; `project` chooses one if there are several."""
        self._clock = clock
        self._transcripts = transcripts
        self._project = project

    def scan(self, state: DreamState) -> SessionScan:
        """Look for sessions with new turns; files that have not changed are not read.

        Raises:
            InvalidRequest: there is no such folder, or its sessions belong to several projects.
        """
        if self._transcripts is None:
            return SessionScan(new=(), excluded={}, marks={})
        now, seen = self._clock.now(), dict(state.sessions)
        found = find_sessions(self._transcripts, seen, now)
        first = state.enabled_at if state.dreamed_at is None else None
        new: list[TranscriptSession] = []
        excluded: dict[str, int] = {}
        for session in found:
            if session.last_line <= state.read.get(session.id, 0):
                continue
            old = first is not None and (session.last is None or session.last < first - RECENT)
            if reason := session.excluded or ("it is older than 30 days" if old else None):
                excluded[reason] = excluded.get(reason, 0) + 1
            else:
                new.append(session)
        chosen = self._choose_project(new)
        marks = {
            "sessions": seen, "scanned_at": now, "transcripts": str(self._transcripts.resolve()),
            "new_sessions": len(chosen),
        }  # fmt: skip
        return SessionScan(new=chosen, excluded=excluded, marks=marks)

    def estimate_tokens(self, scan: SessionScan, state: DreamState) -> int:
        """Return about how many tokens the new turns have."""
        return round(sum(each.tokens * (1 - state.read.get(each.id, 0) / each.last_line) for each in scan.new))

    async def take_in(self, bank_of: FolderBank, bank: Bank, state: DreamState) -> SessionCounts:
        """Store the new turns in the bank. Raises InvalidRequest, as `scan`."""
        scan = await asyncio.to_thread(self.scan, state)
        turns = 0
        for session in scan.new:
            said = await asyncio.to_thread(list, gather(session, state.read.get(session.id, 0)))
            turns += await bank_of.take_in_turns(bank, said)
        read = {**state.read, **{session.id: session.last_line for session in scan.new}}
        return SessionCounts(sessions=len(scan.new), turns=turns, marks={**scan.marks, "read": read})

    def _choose_project(self, sessions: Sequence[TranscriptSession]) -> Sequence[TranscriptSession]:
        projects = group_by_project(sessions)
        if self._project is not None:
            if sessions and self._project not in projects:
                known = ", ".join(sorted(projects)) or "none"
                raise InvalidRequest(f"no new session belongs to {self._project!r}; there are sessions of {known}")
            return projects.get(self._project, ())
        if len(projects) > 1:
            names = ", ".join(sorted(projects))
            raise InvalidRequest(
                f"{str(self._transcripts)!r} has sessions of several projects ({names}); choose one with --project"
            )
        return sessions
