"""A memory folder as it is now: its documents, and what a bank takes in of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from circadia.sleeptime.markdown.anchored_folder import RETIRED_FOLDER, open_anchored
from circadia.sleeptime.markdown.entries import Document, MarkdownBlock
from circadia.sleeptime.markdown.folder_bank import FolderEntry, note_text
from circadia.sleeptime.markdown.index_lines import find_index_lines
from circadia.sleeptime.markdown.memory_folder import MemoryFile, MemoryFolder, read_folder


@dataclass(frozen=True, kw_only=True, slots=True)
class FolderSnapshot:
    folder: MemoryFolder
    documents: Mapping[PurePosixPath, Document]
    entries: Sequence[FolderEntry]
    retired: Mapping[PurePosixPath, bytes]
    """What lies below `.circadia/retired`, by path."""

    def contents_of(self, path: PurePosixPath) -> bytes | None:
        """Return what a file, or one of retired entries, held; None: there was none."""
        return self.documents[path].data if path in self.documents else self.retired.get(path)

    @property
    def texts(self) -> frozenset[str]:
        """The texts of all entries, as notes have them."""
        return frozenset(note_text(entry.text) for entry in self.entries)

    @property
    def pinned_texts(self) -> frozenset[str]:
        return frozenset(note_text(entry.text) for entry in self.entries if entry.is_pinned)


def take_snapshot(root: Path) -> FolderSnapshot:
    """Read the folder. Raises InvalidRequest: it is none. Conflict: a file has changed while it was read."""
    folder = read_folder(root)
    documents = {file.path: file.read_document() for file in folder.files}
    entries = [entry for file in folder.files for entry in _entries_of(folder, file, documents[file.path])]
    with open_anchored(folder.root) as opened:
        retired = {kept: opened.read_file(kept) for path in documents if (kept := RETIRED_FOLDER / path)}
    return FolderSnapshot(
        folder=folder, documents=documents, entries=entries,
        retired={path: data for path, data in retired.items() if data is not None},
    )  # fmt: skip


def _entries_of(folder: MemoryFolder, file: MemoryFile, document: Document) -> Iterator[FolderEntry]:
    """Yield what a file says; the lines of an index only say where."""
    path, at = file.path, datetime.fromtimestamp(file.changed_at, UTC)
    is_index = folder.index is not None and path == folder.index.path
    lines = {line.entry for line in find_index_lines(path, document)} if is_index else set[MarkdownBlock]()
    is_fixed = document.is_pinned or not document.is_writable
    for entry in document.entries:
        if entry not in lines:
            yield FolderEntry(file=path, line=entry.line, text=entry.text, at=at, is_pinned=is_fixed or entry.is_pinned)
