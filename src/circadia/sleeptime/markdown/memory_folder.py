"""The files of a Markdown memory folder: its index, its topic files, and what cannot be read.

Links are never followed, and folders are opened relative to the one above them: nothing outside the folder is read,
even if somebody changes it meanwhile. Each file is read once: a dream works on what it has read, and what changes
meanwhile shows when it publishes.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Final

from circadia.errors import InvalidRequest
from circadia.sleeptime.markdown.anchored_folder import AnchoredFolder, fold_name, open_anchored
from circadia.sleeptime.markdown.entries import Document, parse_entries
from circadia.sleeptime.markdown.links import whole_name

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
KINDS: Final = ("user", "feedback", "project", "reference")
"""The values of `type` in the front matter of a topic file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryFile:
    path: PurePosixPath
    document: Document
    changed_at: datetime

    @property
    def kind(self) -> str | None:
        kind = self.document.front_matter.get("type")
        return kind if kind in KINDS else None

    @property
    def is_log(self) -> bool:
        return DAY_NAME.match(self.path.name) is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryFolder:
    root: Path
    index: MemoryFile | None
    topics: Sequence[MemoryFile]
    """The other Markdown files, by path."""
    problems: Mapping[PurePosixPath, str]
    """Paths that dreams leave alone, or that somebody has to put right, with the reason."""
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

    def find_obstacle(self, path: PurePosixPath) -> str:
        """Return why no file can be made at a path, empty if one can: something stands there, or above it."""
        for part in (path, *path.parents[:-1]):
            is_other = part == path or part in self.problems or any(file.path == part for file in self.files)
            if is_other and comparable_path(part) in self.names:
                return f"{str(part)!r} is in the way: {self.problems.get(part, 'something else has that name')}"
        return ""


def read_folder(root: Path) -> MemoryFolder:
    """Read a memory folder. Raises InvalidRequest: it is none, or holds too many files."""
    try:
        root = root.resolve(strict=True)
        top = set(os.listdir(root))
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "a circle of links"
        raise InvalidRequest(f"{str(root)!r} is no readable folder ({reason}); name a memory folder") from error
    index_name = next((name for name in INDEX_NAMES if name in top), None)
    is_tree = index_name not in MEMORY_NAMES and has_tree(root)
    is_workspace = _is_workspace(top)
    names: set[str] = set()
    files: list[MemoryFile] = []
    problems: dict[PurePosixPath, str] = {}
    with open_anchored(root) as folder:
        for path, message in _walk(folder, is_workspace):
            names.add(comparable_path(path))
            if len(names) > MAX_FILES:
                raise InvalidRequest(f"{str(root)!r} has more than {MAX_FILES} files; name the memory folder itself")
            found = message or _inspect(folder, path)
            if isinstance(found, str):
                problems[path] = found
            elif found is not None:
                files.append(found)
    if index_name is None and not is_tree:
        problems[PurePosixPath(INDEX_NAMES[0])] = "there is no index; agents look for it under this name"
    index = next((file for file in files if str(file.path) == index_name), None)
    return MemoryFolder(
        root=root,
        index=index,
        topics=sorted((file for file in files if file is not index), key=lambda file: file.path),
        problems=problems | _find_case_problems(files),
        is_workspace=is_workspace,
        is_tree=is_tree,
        names=frozenset(names),
    )


def find_logs(root: Path) -> set[Path]:
    """Return the dated logs among a folder's memory. Raises OSError, InvalidRequest: it is no readable folder."""
    is_workspace = _is_workspace(set(os.listdir(root)))
    with open_anchored(root) as folder:
        found = [path for path, problem in _walk(folder, is_workspace) if not problem and path.suffix == ".md"]
    return {root / path for path in found if DAY_NAME.match(path.name)}


def _is_workspace(top: set[str]) -> bool:
    """Return whether only some files of a folder with these names are memory."""
    is_project = ".git" in top and any(name.startswith("README") for name in top)
    return not top.isdisjoint(MEMORY_NAMES) and (is_project or not top.isdisjoint(INSTRUCTION_NAMES))


def has_tree(root: Path) -> bool:
    """Return whether a folder is Letta's: files of `system` have front matter, which its hook demands."""
    with suppress(OSError):
        return any(file.read_bytes().startswith(b"---") for file in (root / TREE).rglob("*.md"))
    return False


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
            printable = PurePosixPath(os.fsencode(path).decode("utf-8", "replace"))
            if printable != path:
                yield printable, "its name is not UTF-8; rename it"
            elif is_link:
                yield path, "it is a link; dreams follow none"
            else:
                yield path, ""
                folders += [path] if is_folder else []


def _is_memory(path: PurePosixPath, is_workspace: bool) -> bool:
    top = path.parts[0]
    is_outside = is_workspace and whole_name(PurePosixPath(top)).name not in WORKSPACE_MEMORY
    return top not in GENERATED_NAMES and path.name != "node_modules" and not is_outside


def _inspect(top: AnchoredFolder, path: PurePosixPath) -> MemoryFile | str | None:
    """Return a Markdown file, or why it is left alone; none for anything else."""
    if path.suffix.lower() != ".md":
        return None
    try:
        with top.open_parent(path) as file:
            data, status = file.read_start(MAX_FILE_BYTES + 1)
            is_writable = status.st_mode & 0o222 != 0 and file.is_writable()
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    if len(data) > MAX_FILE_BYTES:
        return f"it is larger than {MAX_FILE_BYTES} bytes; split it by hand"
    if b"\0" in data:
        return "it is binary"
    document = parse_entries(data, is_writable=is_writable)
    return MemoryFile(path=path, document=document, changed_at=datetime.fromtimestamp(status.st_mtime, UTC))


def _find_case_problems(files: Sequence[MemoryFile]) -> dict[PurePosixPath, str]:
    first: dict[str, PurePosixPath] = {}
    return {
        file.path: f"its name differs from {str(other)!r} only in case or accents"
        for file in files
        if (other := first.setdefault(comparable_path(file.path), file.path)) != file.path
    }
