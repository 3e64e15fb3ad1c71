"""What each dream replaced in a memory folder: log, diff and undo.

The history of a dream is its changeset in `.circadia/dreams/ID/`: the contents before and after, so that a later undo
can merge by lines. In a git repository there is a commit, too.
"""

import difflib
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from circadia.errors import Conflict, NotFound
from circadia.sleeptime.markdown.anchored_folder import RETIRED_FOLDER, storage_errors
from circadia.sleeptime.markdown.changeset import (
    Changeset,
    FileVersions,
    ReplacementStatus,
    list_changeset_ids,
    open_changeset,
    unknown_dream,
)
from circadia.sleeptime.markdown.entries import parse_entries
from circadia.sleeptime.markdown.publication import PublicationResult, publish, stage
from circadia.sleeptime.publish.merge import apply_change

_UNTOUCHED: Final = "nothing was changed"


def list_history(root: Path) -> list[Changeset]:
    """Return the dreams and undos of the folder, newest first, with what they published and what still is proposed."""
    entries = list[Changeset]()
    with storage_errors(root, _UNTOUCHED):
        for changeset_id in list_changeset_ids(root):
            with suppress(NotFound), open_changeset(root, changeset_id) as files:
                entries.append(files.changeset)
    return sorted(entries, key=lambda each: each.created_at, reverse=True)


def has_proposal(entries: Iterable[Changeset], changeset_id: str) -> bool:
    """Return whether something of a dream waits for a person.

    What is left after an answer by file is a further entry of the history, with a number behind the first one's id.
    """
    waiting = [each.id for each in entries if each.proposed]
    return any(key == changeset_id or key.startswith(f"{changeset_id}-") for key in waiting)


def show_diff(root: Path, changeset_id: str) -> str:
    """Return a unified diff of what a dream published, and of what it proposes against the files of now.

    Raises:
        NotFound: there is no such dream.
    """
    with storage_errors(root, _UNTOUCHED), open_changeset(root, changeset_id) as files:
        versions, left_out = files.read_versions(*ReplacementStatus), files.changeset.left_out
    if not versions:
        raise unknown_dream(changeset_id)
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
    restored = list[FileVersions]()
    conflicts = list[str]()
    with storage_errors(root, _UNTOUCHED), open_changeset(root, changeset_id) as files:
        for each in files.read_versions(ReplacementStatus.PUBLISHED):
            ours = files.folder.read_file(each.path)
            data, overlaps = _take_back(each, ours)
            restored.append(FileVersions(path=each.path, old=ours, new=data, mode=each.mode))
            conflicts += [f"{str(each.path)!r} {overlap}" for overlap in overlaps]
    if not restored:
        raise unknown_dream(changeset_id)
    if conflicts:
        raise Conflict(
            f"cannot undo dream {changeset_id!r}, nothing was changed: later changes overlap with it in "
            f"{', '.join(conflicts)}; undo the later dream first, or edit these lines by hand"
        )
    if all(each.new == each.old for each in restored):
        raise Conflict(f"dream {changeset_id!r} is undone already: its files are as they were before it")
    stage(root, undo_id, restored, now=now, title=f"Undo of dream {changeset_id}", undoes=changeset_id)
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


def _show_file_diff(each: FileVersions) -> str:
    """Return the diff of one file, as `diff -u` prints it."""
    old_name, new_name = (b"/dev/null" if data is None else bytes(each.path) for data in (each.old, each.new))
    old, new = ((data or b"").splitlines(keepends=True) for data in (each.old, each.new))
    found = difflib.diff_bytes(difflib.unified_diff, old, new, old_name, new_name)
    whole = (line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n" for line in found)
    return b"".join(whole).decode("utf-8", "replace")
