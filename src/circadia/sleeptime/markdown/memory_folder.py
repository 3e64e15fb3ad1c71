"""The files of a Markdown memory folder: its index, its topic files, and what cannot be read.

Links are never followed, and folders are opened relative to the one above them: nothing outside the folder is read,
even if somebody changes it meanwhile. Each file is read once: a dream works on what it has read, and what changes
meanwhile shows when it publishes.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Final

from circadia.errors import InvalidRequest
from circadia.sleeptime.markdown.anchored_folder import AnchoredFolder, fold_name, open_anchored
from circadia.sleeptime.markdown.entries import Document, parse_entries
from circadia.sleeptime.markdown.splitting import whole_name

INDEX_NAMES: Final = ("MEMORY.md", "memory.md", "AGENTS.md", "CLAUDE.md")
"""Names of an index at the top of a folder; the first that is there is it."""
MEMORY_NAMES: Final = INDEX_NAMES[:2]
INSTRUCTION_NAMES: Final = frozenset(("AGENTS.md", "CLAUDE.md", "SOUL.md"))
"""Beside a `MEMORY.md` they show that the folder is a whole workspace, as OpenClaw's, and other files no memory; so
does a README at the top of a git repository."""
WORKSPACE_MEMORY: Final = frozenset((*MEMORY_NAMES, "USER.md", "memory"))
"""What is memory in such a workspace."""
GENERATED_NAMES: Final = frozenset(
    (
        "rollout_summaries",
        "raw_memories.md",
        "phase2_workspace_diff.md",
        "extensions",
        "memory_filesystem.md",
        "DREAMS.md",
        "skills",
    )
)
"""What the tools write anew themselves, and procedures: names at the top of Codex's, Letta's and OpenClaw's folders."""
SUMMARY: Final = PurePosixPath("memory_summary.md")
"""What Codex puts into each prompt; it looks into the index when the summary names a subject."""
TREE: Final = "system"
"""Letta's MemFS has no index: files below this folder are in each prompt, the others by name and description."""
DAY_NAME: Final = re.compile(r"\d{4}-\d{2}-\d{2}(?!\d)")
"""Beginning of the name of a day's log: agents find it by the date, and dreams read it and never change it."""
MAX_FILE_BYTES: Final = 1_000_000
MAX_FILES: Final = 100_000
"""Files of any kind in a folder; with more it is probably not the one that was meant."""


class MemoryKind(StrEnum):
    """The `type` in the front matter of a topic file."""

    USER = "user"
    FEEDBACK = "feedback"
    PROJECT = "project"
    REFERENCE = "reference"


@dataclass(frozen=True, kw_only=True, slots=True)
class FolderFinding:
    """What was found in a folder, such as a path that dreams leave alone, and what was done or is to do."""

    path: PurePosixPath
    line: int | None = None
    message: str

    def __str__(self) -> str:
        return f"{self.path}{f':{self.line}' if self.line else ''}: {self.message}"


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryFile:
    path: PurePosixPath
    document: Document
    changed_at: datetime

    @property
    def kind(self) -> MemoryKind | None:
        kind = self.document.front_matter.get("type")
        return MemoryKind(kind) if kind in [*MemoryKind] else None

    @property
    def is_log(self) -> bool:
        return DAY_NAME.match(self.path.name) is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryFolder:
    root: Path
    index: MemoryFile | None
    topics: Sequence[MemoryFile]
    """The other Markdown files, by path."""
    problems: Sequence[FolderFinding]
    is_workspace: bool = False
    """Whether only some of its files are memory."""
    is_tree: bool = False
    """Whether the agent sees a tree of names and descriptions in place of an index, as Letta's."""
    names: frozenset[str] = field(default=frozenset(), repr=False)
    """All paths that were seen, as `comparable_path`; those below what is no memory are unknown."""

    @property
    def files(self) -> Sequence[MemoryFile]:
        return [*([self.index] if self.index else []), *self.topics]

    def is_loaded(self, path: PurePosixPath) -> bool:
        """Return whether the agent has the file in each prompt."""
        if self.is_tree:
            return path.parts[0] == TREE
        if any(file.path == SUMMARY for file in self.topics):
            return path == SUMMARY
        is_index = self.index is not None and path == self.index.path
        return is_index or (self.is_workspace and path.parts[0] != "memory")

    def may_have(self, path: PurePosixPath) -> bool:
        """Return whether the path exists, or lies where nobody has looked."""
        return comparable_path(path) in self.names or not _is_memory(path, self.is_workspace)


def read_folder(root: Path) -> MemoryFolder:
    """Read a memory folder. Raises InvalidRequest: it is none, or holds too many files."""
    try:
        root = root.resolve(strict=True)
        top = set(os.listdir(root))
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "a circle of links"
        raise InvalidRequest(f"{str(root)!r} is no readable folder ({reason}); name a memory folder") from error
    index_name = next((name for name in INDEX_NAMES if name in top), None)
    is_tree = index_name not in MEMORY_NAMES and TREE in top
    is_project = bool(top & INSTRUCTION_NAMES) or (".git" in top and any(name.startswith("README") for name in top))
    is_workspace = index_name in MEMORY_NAMES and is_project
    names: set[str] = set()
    files: list[MemoryFile] = []
    problems: list[FolderFinding] = []
    with open_anchored(root) as folder:
        for path, message in _walk(folder, is_workspace):
            names.add(comparable_path(path))
            if len(names) > MAX_FILES:
                raise InvalidRequest(f"{str(root)!r} has more than {MAX_FILES} files; name the memory folder itself")
            found = FolderFinding(path=path, message=message) if message else _inspect(folder, path)
            if isinstance(found, FolderFinding):
                problems.append(found)
            elif found is not None:
                files.append(found)
    if index_name is None and not is_tree:
        message = "there is no index; agents look for it under this name"
        problems.append(FolderFinding(path=PurePosixPath(INDEX_NAMES[0]), message=message))
    index = next((file for file in files if str(file.path) == index_name), None)
    return MemoryFolder(
        root=root,
        index=index,
        topics=sorted((file for file in files if file is not index), key=lambda file: file.path),
        problems=[*problems, *_case_problems(files)],
        is_workspace=is_workspace,
        is_tree=is_tree,
        names=frozenset(names),
    )


def comparable_path(path: PurePosixPath) -> str:
    """Return a path as a disk compares it that ignores case and the form of accents."""
    return fold_name(str(path))


def _walk(top: AnchoredFolder, is_workspace: bool) -> Iterator[tuple[PurePosixPath, str]]:
    """Yield the paths of memory below the root, none of them hidden; with the reason if one cannot be read."""
    folders = [PurePosixPath()]
    while folders:
        here = folders.pop()
        try:
            with top.open_folder(here) as folder:
                entries = folder.list_entries()
        except OSError as error:
            yield here, f"the folder cannot be read: {error.strerror}"
            continue
        for name, is_link, is_folder in entries:
            path = here / name
            if name.startswith(".") or not _is_memory(path, is_workspace):
                continue
            if _printable(path) != path:
                yield _printable(path), "its name is not UTF-8; rename it"
            elif is_link:
                yield path, "it is a link; dreams follow none"
            else:
                yield path, ""
                folders += [path] if is_folder else []


def _is_memory(path: PurePosixPath, is_workspace: bool) -> bool:
    top = path.parts[0]
    is_outside = is_workspace and whole_name(PurePosixPath(top)).name not in WORKSPACE_MEMORY
    return top not in GENERATED_NAMES and path.name != "node_modules" and not is_outside


def _inspect(top: AnchoredFolder, path: PurePosixPath) -> MemoryFile | FolderFinding | None:
    """Return a Markdown file, or why it is left alone; none for anything else."""
    if path.suffix.lower() != ".md":
        return None
    try:
        with top.open_parent(path) as (_, file):
            data, status = file.read_start(MAX_FILE_BYTES + 1)
            is_writable = status.st_mode & 0o222 != 0 and file.is_writable()
    except OSError as error:
        return FolderFinding(path=path, message=f"it cannot be read: {error.strerror}")
    if len(data) > MAX_FILE_BYTES:
        return FolderFinding(path=path, message=f"it is larger than {MAX_FILE_BYTES} bytes; split it by hand")
    if b"\0" in data:
        return FolderFinding(path=path, message="it is binary")
    document = parse_entries(data, is_writable=is_writable)
    return MemoryFile(path=path, document=document, changed_at=datetime.fromtimestamp(status.st_mtime, UTC))


def _printable(path: PurePosixPath) -> PurePosixPath:
    """Return a path whose name is UTF-8; of another, one that is not there."""
    return PurePosixPath(os.fsencode(path).decode("utf-8", "replace"))


def _case_problems(files: Sequence[MemoryFile]) -> Iterator[FolderFinding]:
    by_name: dict[str, list[PurePosixPath]] = {}
    for file in files:
        by_name.setdefault(comparable_path(file.path), []).append(file.path)
    for first, *others in by_name.values():
        for path in others:
            yield FolderFinding(path=path, message=f"its name differs from {str(first)!r} only in case or accents")
