"""The intake of what was said in the sessions of a project into the bank of its memory folder (DREAM-03, DREAM-10)."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from circadia.clock import Clock
from circadia.errors import InvalidRequest
from circadia.memory.transfer.sessions import BY_PROGRAM, TranscriptSession, find_files, find_sessions, gather
from circadia.records.bank import Bank
from circadia.sleeptime.markdown.dream_state import DreamState
from circadia.sleeptime.markdown.folder_bank import FolderBank
from circadia.sleeptime.markdown.memory_folder import DAY_NAME
from circadia.sleeptime.markdown.project_folders import find_project_root, find_worktrees

RECENT: Final = timedelta(days=30)
"""The first dream of a folder reads no older sessions."""


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


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionScan:
    new: Sequence[TranscriptSession] = ()
    """Sessions with turns that no dream has read, the newest last."""
    excluded: Mapping[str, int] = field(default_factory=dict[str, int])
    """Numbers of other sessions, by the reason."""
    worktrees: Sequence[Path] = ()
    """Folders in which Claude Code keeps the sessions of the project's worktrees."""
    turns: int = 0
    """New turns that the bank has taken in."""
    marks: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Changes of the folder's state, unless the dream is a dry run."""


class SessionIntake:
    """The sessions of one project: those in a folder of transcripts, those of its worktrees, and the folder's logs."""

    def __init__(
        self, clock: Clock, transcripts: Path | None, *, folder: Path | None = None, project: str | None = None,
        programs: bool = False,
    ) -> None:  # fmt: skip
        """`project` chooses one if there are several; `folder` is the memory folder.

        With `programs`, sessions count that a program such as `claude -p` or `codex exec` has started.
        """
        self._clock = clock
        self._transcripts = transcripts
        self._folder = folder
        self._project = project
        self._programs = programs

    def scan(self, state: DreamState) -> SessionScan:
        """Look for sessions with new turns; files that have not changed are not read.

        Raises:
            InvalidRequest: there is no such folder, or its sessions belong to several projects.
        """
        worktrees = list(find_worktrees(self._folder)) if self._folder else []
        more = [path for folder in worktrees for path in folder.glob("*.jsonl")]
        top = self._transcripts or self._folder
        if self._folder is not None:
            more += [path for path, _ in find_files(self._folder) if path.suffix == ".md" and DAY_NAME.match(path.name)]
        if top is None:
            return SessionScan()
        now, seen = self._clock.now(), dict(state.sessions)
        found = find_sessions(top, seen, now, more)
        first = state.enabled_at if state.dreamed_at is None else None
        new: list[TranscriptSession] = []
        excluded: dict[str, int] = {}
        for session in found:
            if session.last_line <= _find_read_line(state, session):
                continue
            old = first is not None and (session.last is None or session.last < first - RECENT)
            by_program = self._programs and session.program_turns and (session.excluded or "").startswith(BY_PROGRAM)
            if reason := (None if by_program else session.excluded) or ("it is older than 30 days" if old else None):
                excluded[reason] = excluded.get(reason, 0) + 1
            else:
                new.append(session)
        chosen = self._choose_project(new)
        marks: dict[str, Any] = {"sessions": seen, "scanned_at": now, "new_sessions": len(chosen)}
        if self._transcripts is not None:
            marks["transcripts"] = str(self._transcripts.resolve())
        return SessionScan(new=chosen, excluded=excluded, worktrees=worktrees, marks=marks)

    def estimate_tokens(self, scan: SessionScan, state: DreamState) -> int:
        """Return about how many tokens the new turns have."""
        return round(sum(each.tokens * (1 - _find_read_line(state, each) / each.last_line) for each in scan.new))

    async def take_in(self, bank_of: FolderBank, bank: Bank, state: DreamState) -> SessionScan:
        """Store the new turns in the bank. Raises InvalidRequest, as `scan`."""
        scan = await asyncio.to_thread(self.scan, state)
        turns = 0
        for session in scan.new:
            said = await asyncio.to_thread(
                list, gather(session, _find_read_line(state, session), programs=self._programs)
            )
            turns += await bank_of.take_in_turns(bank, said)
        read = {**state.read, **{session.id: session.last_line for session in scan.new}}
        return replace(scan, turns=turns, marks={**scan.marks, "read": read})

    def _choose_project(self, sessions: Sequence[TranscriptSession]) -> Sequence[TranscriptSession]:
        projects = group_by_project(sessions)
        if self._project is not None:
            if projects and self._project not in projects:
                known = ", ".join(sorted(projects)) or "none"
                raise InvalidRequest(f"no new session belongs to {self._project!r}; there are sessions of {known}")
            return [session for session in sessions if session.root is None or session in projects[self._project]]
        if len(projects) > 1:
            names = ", ".join(sorted(projects))
            raise InvalidRequest(
                f"{str(self._transcripts)!r} has sessions of several projects ({names}); choose one with --project"
            )
        return sessions


def _find_read_line(state: DreamState, session: TranscriptSession) -> int:
    """Return the line up to which the session was read: none if it was written anew since, and is shorter."""
    line = state.read.get(session.id, 0)
    return line if line <= session.last_line else 0
