"""What each dream replaced in a memory folder: log, diff and undo.

The history of a dream is its changeset in `.circadia/dreams/ID/`: the contents before and after, so that a later undo
can merge by lines. In a git repository there is a commit, too.
"""

import difflib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath

from circadia.errors import Conflict, NotFound
from circadia.sleeptime.markdown.anchored_folder import (
    RETIRED_FOLDER,
    AnchoredFolder,
    hash_contents,
    open_anchored,
    storage_errors,
)
from circadia.sleeptime.markdown.changeset import (
    Changeset,
    ReplacementStatus,
    check_changeset_id,
    list_changeset_ids,
    open_changeset,
)
from circadia.sleeptime.markdown.entries import parse_entries
from circadia.sleeptime.markdown.git_repository import FileVersions
from circadia.sleeptime.markdown.publication import PublicationResult, publish, stage
from circadia.sleeptime.publish.merge import apply_change


@dataclass(frozen=True, kw_only=True, slots=True)
class HistoryEntry:
    """A dream, or an undo, of a folder."""

    id: str
    created_at: datetime
    title: str
    undoes: str | None
    published: tuple[PurePosixPath, ...]
    proposed: tuple[PurePosixPath, ...] = ()
    commit: str | None = None
    """The git commit that has the contents."""
    left_out: tuple[str, ...] = ()
    """What was not written, and why."""


def list_history(root: Path) -> list[HistoryEntry]:
    """Return the dreams and undos of the folder, newest first, with what they published and what still is proposed."""
    entries = list[HistoryEntry]()
    with open_anchored(root) as folder, storage_errors(root, "nothing was changed"):
        for changeset_id in list_changeset_ids(folder):
            with suppress(NotFound), open_changeset(folder, changeset_id) as (_, changeset):
                entries.append(_to_entry(changeset))
    return sorted(entries, key=lambda each: each.created_at, reverse=True)


def has_proposal(entries: Iterable[HistoryEntry], changeset_id: str) -> bool:
    """Return whether something of a dream waits for a person.

    What is left after an answer by file is a further entry of the history, with a number behind the first one's id.
    """
    waiting = [each.id for each in entries if each.proposed]
    return any(key == changeset_id or key.startswith(f"{changeset_id}-") for key in waiting)


def _to_entry(changeset: Changeset) -> HistoryEntry:
    return HistoryEntry(
        id=changeset.id,
        created_at=changeset.created_at,
        title=changeset.title,
        undoes=changeset.undoes,
        published=tuple(sorted(changeset.paths_with(ReplacementStatus.PUBLISHED))),
        proposed=tuple(sorted(changeset.paths_with(ReplacementStatus.STAGED, ReplacementStatus.PUBLISHING))),
        commit=changeset.commit,
        left_out=changeset.left_out,
    )


def show_diff(root: Path, changeset_id: str) -> str:
    """Return a unified diff of what a dream published, and of what it proposes against the files of now.

    Raises:
        NotFound: there is no such dream.
    """
    left_out: Sequence[str] = ()
    with open_anchored(root) as folder, storage_errors(root, "nothing was changed"):
        versions = _read_published(folder, changeset_id) + _read_proposed(folder, changeset_id)
        with suppress(NotFound), open_changeset(folder, changeset_id) as (_, changeset):
            left_out = changeset.left_out
    if not versions:
        raise _unknown(changeset_id)
    return "".join(f"# not written: {' '.join(text.split())}\n" for text in left_out) + render_diff(versions)


def render_diff(versions: Iterable[FileVersions]) -> str:
    """Return a unified diff of these files, by path."""
    return "".join(_show_file_diff(each) for each in sorted(versions, key=lambda each: each.path))


def undo(root: Path, changeset_id: str, undo_id: str, *, now: datetime) -> PublicationResult:
    """Restore what a dream replaced; later changes of other lines stay. The undo is a changeset that can be undone too.

    Raises:
        NotFound: there is no such dream, or nothing of it was published.
        Conflict: later changes overlap with the dream's, and nothing was changed; or it is undone already.
        StorageUnavailable: as for `publish`.
    """
    restored = dict[PurePosixPath, bytes | None]()
    expected = dict[PurePosixPath, str | None]()
    conflicts = list[str]()
    with open_anchored(root) as folder, storage_errors(root, "nothing was changed"):
        versions = _read_published(folder, changeset_id)
        for each in versions:
            ours = folder.read_file(each.path)
            expected[each.path] = hash_contents(ours)
            restored[each.path], overlaps = _take_back(each, ours)
            conflicts += [f"{str(each.path)!r} {overlap}" for overlap in overlaps]
    if not versions:
        raise _unknown(changeset_id)
    if conflicts:
        raise Conflict(
            f"cannot undo dream {changeset_id!r}, nothing was changed: later changes overlap with it in "
            f"{', '.join(conflicts)}; undo the later dream first, or edit these lines by hand"
        )
    if all(hash_contents(restored[path]) == expected[path] for path in restored):
        raise Conflict(f"dream {changeset_id!r} is undone already: its files are as they were before it")
    modes = {each.path: each.mode for each in versions}
    title = f"Undo of dream {changeset_id}"
    stage(root, undo_id, restored, expected, now=now, title=title, undoes=changeset_id, modes=modes)
    return publish(root, undo_id)


def _take_back(each: FileVersions, ours: bytes | None) -> tuple[bytes | None, list[str]]:
    """Return what a file holds without the dream's change, and where later changes overlap with it."""
    if ours == each.new or ours == each.old:
        return each.old, []
    if each.new is None:
        return ours, ["(made anew since)"]
    if ours is None:
        return ours, ["(removed since)"]
    merge = apply_change(each.new, ours, _frame_of(each) if each.old is None else each.old)
    return merge.data, [f"lines {first}-{last}" for first, last in merge.conflicts]


def _frame_of(each: FileVersions) -> bytes:
    """Return what stays of a file that a dream has made, and others have added to: all but the dream's entries."""
    if each.new is None or each.path.is_relative_to(RETIRED_FOLDER):
        return b""
    entries = parse_entries(each.new).entries
    ends = [0, *(entry.end for entry in entries)]
    starts = [*(entry.start for entry in entries), len(each.new)]
    return b"".join(each.new[end:start] for end, start in zip(ends, starts, strict=True))


def _read_published(folder: AnchoredFolder, changeset_id: str) -> list[FileVersions]:
    """Return the contents before and after what a dream published."""
    check_changeset_id(changeset_id)
    versions = list[FileVersions]()
    with suppress(NotFound), open_changeset(folder, changeset_id) as (files, changeset):
        for each in changeset.replacements:
            if each.status is ReplacementStatus.PUBLISHED:
                old, new = files.read_old(each), files.read_new(each)
                versions.append(FileVersions(path=each.path, old=old, new=new, mode=each.mode))
    return versions


def _read_proposed(folder: AnchoredFolder, changeset_id: str) -> list[FileVersions]:
    """Return the contents of now, and those that a dream proposes."""
    with suppress(NotFound), open_changeset(folder, changeset_id) as (files, changeset):
        return [
            FileVersions(path=each.path, old=folder.read_file(each.path), new=files.read_new(each), mode=each.mode)
            for each in changeset.replacements
            if each.status is not ReplacementStatus.PUBLISHED
        ]
    return []


def _show_file_diff(each: FileVersions) -> str:
    """Return the diff of one file, as `diff -u` prints it."""
    old_name, new_name = (b"/dev/null" if data is None else bytes(each.path) for data in (each.old, each.new))
    old, new = ((data or b"").splitlines(keepends=True) for data in (each.old, each.new))
    found = difflib.diff_bytes(difflib.unified_diff, old, new, old_name, new_name)
    whole = (line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n" for line in found)
    return b"".join(whole).decode("utf-8", "replace")


def _unknown(changeset_id: str) -> NotFound:
    return NotFound(f"no dream {changeset_id!r} has changed this folder; `circadia dream log` lists them")
