"""The sessions in a folder of transcripts, and what was said in each (DREAM-03, DREAM-30)."""

import logging
import os
import stat
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from circadia.errors import CircadiaError, InvalidRequest
from circadia.memory.capture.attribution import WITHIN, RecentTexts, find_origin
from circadia.memory.capture.fingerprints import READ, fingerprints, pack_hashes
from circadia.memory.capture.recorder import clean_and_shorten
from circadia.memory.context import estimate_tokens
from circadia.memory.episodes import NewEpisode
from circadia.memory.transfer.claude_code import find_rewound_lines
from circadia.memory.transfer.codex import find_rolled_back_lines
from circadia.memory.transfer.formats import detect_transcript, read_turns
from circadia.memory.transfer.import_format import ImportFormat
from circadia.memory.transfer.openclaw import (
    DATABASE,
    find_abandoned_lines,
    list_database_sessions,
    read_database_lines,
)
from circadia.memory.transfer.transcripts import TRUST, Speaker, TranscriptFacts, TranscriptTurn, build_episode
from circadia.records.bank import Trust
from circadia.records.episode import EpisodeKind, Provenance

logger = logging.getLogger(__name__)

SETTLED: Final = timedelta(minutes=10)
"""Time without a change after which a transcript counts as complete."""
LONGEST_LINE: Final = 16 * 2**20
"""Bytes of a line; longer ones, such as several pictures, are skipped and counted."""
_SUFFIXES: Final = (".jsonl", ".md", DATABASE)
_OWN_FOLDER: Final = ".circadia"
"""What a dream keeps in a memory folder."""
BY_PROGRAM: Final = "it was started by a program"
_EARLIEST: Final = datetime(1, 1, 1, tzinfo=UTC)
_REWINDS: Final = {
    ImportFormat.CLAUDE_CODE: find_rewound_lines,
    ImportFormat.CODEX: find_rolled_back_lines,
    ImportFormat.OPENCLAW: find_abandoned_lines,
}
"""What finds the lines of a session that a person has taken back."""


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
    program_turns: int
    """Turns of a program such as `claude -p` or `codex exec` in a person's place."""
    tokens: int
    """About how many the texts of its turns have, without tool calls and results."""
    unknown_lines: int
    broken_lines: int
    excluded: str | None
    """Why the session does not count, None if it does."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Source:
    """A file of transcripts, or one session in a database of OpenClaw."""

    path: Path
    size: int
    changed_ns: int
    session: str = ""
    """Of a database."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _ScannedFile:
    """What a file contained while it had this size and time."""

    size: int
    changed_ns: int
    unfinished: bool
    sessions: Sequence[TranscriptSession]


_SCANNED_FILE: Final = TypeAdapter(_ScannedFile)


def find_sessions(
    folder: Path, seen: MutableMapping[str, Any], now: datetime, more: Iterable[Path] = ()
) -> Sequence[TranscriptSession]:
    """Return the sessions below a folder, and in the files `more`, the one with the newest turn last.

    `seen` is JSON that the caller keeps for the next call: files with an unchanged size and time are not read again.

    Raises InvalidRequest: there is no such folder.
    """
    if not folder.is_dir() or not os.access(folder, os.R_OK | os.X_OK):
        raise InvalidRequest(f"{str(folder)!r} is no folder that can be read; name the folder with the transcripts")
    sessions: list[TranscriptSession] = []
    present: set[str] = set()
    others = ((path, path.lstat()) for path in more if not path.is_relative_to(folder))
    for source in _list_sources(chain(find_files(folder), others)):
        name = source.path.relative_to(folder) if source.path.is_relative_to(folder) else source.path
        key = os.fsencode(name).decode("utf-8", "backslashreplace") + f"#{source.session}" * bool(source.session)
        file = _load_scan(seen.get(key), source)
        if file is None:
            try:
                file = _scan_file(source, key)
            except (OSError, CircadiaError) as error:
                logger.warning("transcript %r cannot be read: %s", str(source.path), error)
                continue
            seen[key] = _SCANNED_FILE.dump_python(file, mode="json")
        present.add(key)
        changed_at = datetime.fromtimestamp(source.changed_ns / 1e9, UTC)
        is_running = file.unfinished or now - changed_at < SETTLED
        for session in file.sessions:
            excluded = "the session may still run" if is_running else session.excluded
            sessions.append(replace(session, path=source.path, excluded=excluded))
    for key in seen.keys() - present:
        del seen[key]
    return sorted(sessions, key=lambda session: (session.last or _EARLIEST, session.id))


def gather(
    session: TranscriptSession, after_line: int = 0, *, person: str = "user", programs: bool = False
) -> Iterator[NewEpisode]:
    """Yield what the person and the agent said behind a line, redacted and shortened as by the recorder.

    With `programs`, what a program said in a person's place counts as a person's.

    A person's turn that mostly repeats the agent or a tool has their trust, as at the gateway. The times are those of
    the transcript, whatever they are. Raises OSError: the file is gone.
    """
    facts = _new_facts(session.path, session.id)
    file_id = facts.session
    origins = _Origins()
    for turn in _read_turns(session.path, session.format, facts, session.id):
        if _session_id(turn, session.format, file_id) != session.id:
            continue
        if programs and turn.speaker is Speaker.PROGRAM:
            turn = replace(turn, speaker=Speaker.PERSON)
        trust = origins.find_trust(turn)
        if turn.line <= after_line or turn.kind is EpisodeKind.TOOL or turn.speaker is Speaker.PROGRAM:
            continue
        if text := clean_and_shorten(turn.text):
            turn = replace(turn, conversation=session.id)
            yield build_episode(turn, session.format, text, person=person, key=turn.key, trust=trust)


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


def find_files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the files below a folder that may be transcripts, without following links."""
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != _OWN_FOLDER)
        for name in sorted(names):
            if name.endswith(_SUFFIXES):
                path = Path(parent, name)
                try:
                    status = path.lstat()
                except OSError:
                    continue  # it was just removed
                if stat.S_ISREG(status.st_mode):
                    yield path, status


def _list_sources(files: Iterable[tuple[Path, os.stat_result]]) -> Iterator[_Source]:
    for path, status in files:
        if path.name != DATABASE:
            yield _Source(path=path, size=status.st_size, changed_ns=status.st_mtime_ns)
            continue
        try:
            for session, lines, changed_at in list_database_sessions(path):
                yield _Source(path=path, size=lines, changed_ns=changed_at * 1_000_000, session=session)
        except CircadiaError as error:
            logger.warning("%s", error)


def _load_scan(entry: object, source: _Source) -> _ScannedFile | None:
    """Return what the last call read of a file, None if the file has changed since or the entry is not readable."""
    try:
        file = _SCANNED_FILE.validate_python(entry)
    except ValidationError:
        return None
    return file if (file.size, file.changed_ns) == (source.size, source.changed_ns) else None


@dataclass(kw_only=True, slots=True)
class _SessionTally:
    last: datetime | None = None
    last_line: int = 0
    person_turns: int = 0
    program_turns: int = 0
    facts_noted: int = 0
    tokens: int = 0

    def add(self, turn: TranscriptTurn) -> None:
        self.last_line = turn.line
        self.person_turns += turn.speaker is Speaker.PERSON and turn.kind is EpisodeKind.TURN
        self.program_turns += turn.speaker is Speaker.PROGRAM and turn.kind is EpisodeKind.TURN
        self.facts_noted += turn.kind is EpisodeKind.FACT
        if turn.kind is not EpisodeKind.TOOL:
            self.tokens += estimate_tokens(turn.text)
        if turn.at is not None:
            self.last = turn.at if self.last is None else max(self.last, turn.at)


def _scan_file(source: _Source, key: str) -> _ScannedFile:
    facts = _new_facts(source.path, source.session)
    file_id = facts.session
    kind = ImportFormat.OPENCLAW if source.session else detect_transcript(source.path)
    if kind is None:
        return _ScannedFile(size=source.size, changed_ns=source.changed_ns, unfinished=False, sessions=())
    tallies = {} if kind is ImportFormat.PLAIN else {file_id: _SessionTally()}
    for turn in _read_turns(source.path, kind, facts, source.session):
        tallies.setdefault(_session_id(turn, kind, file_id), _SessionTally()).add(turn)
    sessions = [
        TranscriptSession(
            id=session_id, format=kind, path=Path(key), root=facts.root, last=tally.last, last_line=tally.last_line,
            person_turns=tally.person_turns, program_turns=tally.program_turns,
            tokens=tally.tokens, unknown_lines=facts.unknown_lines, broken_lines=facts.broken_lines,
            excluded=_exclusion(tally, facts),
        )
        for session_id, tally in tallies.items()
    ]  # fmt: skip
    return _ScannedFile(size=source.size, changed_ns=source.changed_ns, unfinished=facts.unfinished, sessions=sessions)


def _exclusion(tally: _SessionTally, facts: TranscriptFacts) -> str | None:
    if tally.person_turns or tally.facts_noted:
        return None
    return f"it was started by {facts.started_by}" if facts.started_by else "no person says anything"


def _session_id(turn: TranscriptTurn, kind: ImportFormat, file_id: str) -> str:
    """Return the session of a turn: a file of the plain format may have several, others are one."""
    return turn.conversation or file_id if kind is ImportFormat.PLAIN else file_id


def _new_facts(path: Path, session: str) -> TranscriptFacts:
    return TranscriptFacts(session=session) if path.name == DATABASE else TranscriptFacts.from_name(path)


def _read_turns(path: Path, kind: ImportFormat, facts: TranscriptFacts, session: str) -> Iterator[TranscriptTurn]:
    """Yield the turns of a file, or of a session in a database, without those that a person has taken back."""

    def read_lines() -> Iterator[tuple[int, bytes]]:
        facts.broken_lines = 0
        return read_database_lines(path, session) if path.name == DATABASE else _read_lines(path, facts)

    abandoned = _REWINDS[kind](read_lines()) if kind in _REWINDS else frozenset[int]()
    return read_turns(path, kind, ((number, line) for number, line in read_lines() if number not in abandoned), facts)


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
