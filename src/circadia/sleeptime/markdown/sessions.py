"""The sessions of a project: where Claude Code keeps them and the memory folder, one for all worktrees (DREAM-41).

What was said in them goes into the bank of the memory folder (DREAM-03, DREAM-10).
"""

import asyncio
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Final

from circadia.clock import Clock
from circadia.errors import InvalidRequest
from circadia.memory.transfer.sessions import BY_PROGRAM, TranscriptSession, find_sessions, gather
from circadia.records.bank import Bank
from circadia.sleeptime.markdown.anchored_folder import OWN_FOLDER
from circadia.sleeptime.markdown.dream_state import DreamState
from circadia.sleeptime.markdown.folder_bank import FolderBank
from circadia.sleeptime.markdown.git_repository import GitRepository
from circadia.sleeptime.markdown.memory_folder import MEMORY_NAMES, find_logs, has_tree

RECENT: Final = timedelta(days=30)
"""The first dream of a folder reads no older sessions."""
_LONGEST_NAME: Final = 200
"""Characters of a project's name that Claude Code keeps."""
_HEAD_LINES: Final = 50
"""Lines of a transcript in which the folder of its session is looked for."""


def find_memory_folder(path: Path, environment: Mapping[str, str], *, repository: bool = False) -> Path:
    """Return the memory folder that a person means: that of the project at `path`, or `path` itself if it is one.

    A repository is a memory folder itself only if it has an index or Letta's tree, or the person says so.

    Raises:
        InvalidRequest: `path` is a project, and Claude Code keeps no memory folder for it.
    """
    names = (*MEMORY_NAMES, OWN_FOLDER)
    if repository or not path.is_dir() or any((path / name).exists() for name in names) or has_tree(path):
        return path
    root = find_project_root(str(path.resolve()))
    home = Path(environment.get("HOME") or Path.home())
    projects = Path(environment.get("CLAUDE_CONFIG_DIR") or home / ".claude", "projects")
    around = projects / _find_name(root, projects)
    if (around / "memory").is_dir():
        return around / "memory"
    if not (around.is_dir() or root != str(path.resolve()) or (path / ".git").exists()):
        return path
    raise InvalidRequest(
        f"{str(path)!r} belongs to the project {root!r}, and Claude Code keeps no memory for it: there is no "
        f"{str(around / 'memory')!r}; name the memory folder itself, or add --repository if all Markdown files of "
        f"{str(path)!r} are memory"
    )


def find_transcripts(folder: Path) -> Path | None:
    """Return the folder of the sessions that belong to a memory folder: the one around it, or that of OpenClaw's agent.

    OpenClaw has `workspace` for its agent `main`, and `workspace-NAME` for another one.
    """
    around = folder.resolve().parent
    workspace, _, name = folder.resolve().name.partition("-")
    agent = around / "agents" / (name or "main")
    if workspace == "workspace" and agent.is_dir():
        return agent
    return around if any(around.glob("*.jsonl")) else None


def find_worktrees(folder: Path) -> Iterator[Path]:
    """Yield the folders with the sessions of other worktrees of the project whose memory folder this is."""
    around = folder.resolve().parent
    if folder.name != "memory" or around.parent.name != "projects":
        return
    for other in sorted(around.parent.iterdir()):
        started_in = _find_start(other) if other != around else None
        if started_in is not None and _find_name(find_project_root(started_in), around.parent) == around.name:
            yield other


def _find_start(folder: Path) -> str | None:
    """Return the folder in which the agent started, by the first transcript of a folder that says so."""
    for path in sorted(folder.glob("*.jsonl")):
        with suppress(OSError), path.open("rb") as file:
            for line in islice(file, _HEAD_LINES):
                with suppress(ValueError, AttributeError):
                    if isinstance(started_in := json.loads(line).get("cwd"), str):
                        return started_in
    return None


def _find_name(root: str, projects: Path) -> str:
    """Return the name of a project's folder: its path in UTF-16 with `-` for all but letters and digits.

    A longer one is cut, with a hash behind it that only Claude Code can tell.
    """
    name = re.sub("[^A-Za-z0-9]", lambda found: "-" * (1 + (found[0] > "\uffff")), root)
    longer = projects.glob(f"{name[:_LONGEST_NAME]}-*") if len(name) > _LONGEST_NAME else ()
    return next((path.name for path in longer), name)


def find_project_root(folder: str) -> str:
    """Return the root of the git repository that a folder belongs to, the same for its worktrees; else the folder.

    For a folder that is gone, such as a removed worktree, that of the folder around it.
    """
    path = Path(folder)
    if "\0" in folder or not path.is_absolute():
        return folder
    existing = next((parent for parent in (path, *path.parents) if parent.is_dir()), path)
    repository = GitRepository(existing).find_common_folder()
    if repository is None:
        return folder
    return str(repository.parent if repository.name == ".git" else repository)


def group_by_project(sessions: Iterable[TranscriptSession]) -> Mapping[str, Sequence[TranscriptSession]]:
    """Return the sessions by project root; worktrees of a git repository are one project."""
    find_root, projects = cache(find_project_root), dict[str, list[TranscriptSession]]()
    for session in sessions:
        if session.root is not None:
            projects.setdefault(find_root(session.root), []).append(session)
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
        self, clock: Clock, transcripts: Path | None, *, folder: Path, project: str | None = None,
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
        worktrees = list(find_worktrees(self._folder))
        more = [path for folder in worktrees for path in folder.glob("*.jsonl")]
        more += (logs := find_logs(self._folder.resolve()))
        now, seen = self._clock.now(), dict(state.sessions)
        found = find_sessions(self._transcripts or self._folder, seen, now, more)
        first = state.enabled_at if state.dreamed_at is None else None
        new: list[TranscriptSession] = []
        excluded: dict[str, int] = {}
        for session in found:
            if session.path.suffix == ".md" and session.path.resolve() not in logs:
                continue  # it has a day in its name, and is no memory
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
