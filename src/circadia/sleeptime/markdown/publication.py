"""Publish the files of a dream into its memory folder: staged beside, checked, swapped in one by one, with a journal.

A crash at any instant leaves each file old or new, and `recover` finishes the rest. A file that somebody changed since
the dream read it is left alone. Call what writes with the folder's lock held.

What a dream replaced stays in its changeset: log, diff, and an undo that merges by lines. In a git repository there is
a commit, too.
"""

import difflib
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Final

from circadia.errors import Conflict, InvalidRequest, NotFound
from circadia.sleeptime.markdown.anchored_folder import (
    OWN_FOLDER,
    RETIRED_FOLDER,
    AnchoredFolder,
    check_path,
    fold_name,
    hash_contents,
    open_anchored,
    open_own_folder,
    storage_errors,
)
from circadia.sleeptime.markdown.changeset import (
    DREAMS_FOLDER,
    Changeset,
    ChangesetFolder,
    FileOutcome,
    FileReplacement,
    FileVersions,
    ReplacementStatus,
    check_changeset_id,
    list_changeset_ids,
    load_changeset,
    open_changeset,
    unknown_dream,
)
from circadia.sleeptime.markdown.entries import parse_entries
from circadia.sleeptime.markdown.git_repository import GitRepository
from circadia.sleeptime.markdown.memory_folder import read_folder
from circadia.sleeptime.publish.merge import apply_change

_UNTOUCHED: Final = "no file of the folder was changed"


@dataclass(frozen=True, kw_only=True, slots=True)
class PublicationResult:
    id: str
    outcomes: Mapping[PurePosixPath, FileOutcome]
    rescued: tuple[Path, ...] = ()
    """Where edits lie that were made in the old version of a file during or after the swap."""
    refusal: str = ""
    """Why the repository refuses a commit: then no file has changed."""

    @property
    def problems(self) -> Sequence[str]:
        """What was left alone or has an edit beside it; empty if each file was read back as it was staged."""
        left = [f"{path}: {outcome}" for path, outcome in self.outcomes.items() if outcome is not FileOutcome.PUBLISHED]
        return [
            *filter(None, [self.refusal]),
            *left,
            *(f"an edit that was made meanwhile is kept in {path}" for path in self.rescued),
        ]

    def list_published(self) -> Sequence[PurePosixPath]:
        """Return the files of the folder that hold what was staged, or did before somebody else wrote there."""
        left_alone = (FileOutcome.CHANGED_MEANWHILE, FileOutcome.READ_ONLY, FileOutcome.TAKEN_BACK)
        return [
            path for path, outcome in self.outcomes.items() if outcome not in left_alone and path.parts[0] != OWN_FOLDER
        ]


def stage(
    root: Path, changeset_id: str, files: Sequence[FileVersions], *, now: datetime, title: str,
    undoes: str | None = None, left_out: Sequence[str] = (),
) -> None:  # fmt: skip
    """Write new contents beside the folder's files, and flush them to the disk; no file of the folder changes.

    Args:
        root: the memory folder.
        changeset_id: names the changeset from now on.
        files: what each held when the dream read it, and is to hold.
        now, title, undoes, left_out: for the history.

    Raises:
        InvalidRequest: a path leads out of the folder, is no Markdown file, or differs only in case from another one.
        Conflict: the id is taken.
        StorageUnavailable: the disk is full or cannot be written; nothing is left behind.
    """
    check_changeset_id(changeset_id)
    if len({fold_name(str(file.path)) for file in files}) < len(files):
        raise InvalidRequest("two of the paths differ only in case; a disk may take them for one file")
    with open_anchored(root) as folder, storage_errors(root, _UNTOUCHED):
        for file in files:
            folder.check_spelling(check_path(file.path))
        with open_own_folder(folder, DREAMS_FOLDER) as dreams:
            if changeset_id in dreams.list_names():
                raise Conflict(f"there is a dream {changeset_id!r} in {str(root)!r} already; take a new id")
            changed = [file for file in files if file.new != file.old]
            changeset = Changeset(
                id=changeset_id, created_at=now, title=title, undoes=undoes, left_out=tuple(left_out),
                replacements=tuple(
                    FileReplacement(
                        path=file.path, number=number, old_hash=hash_contents(file.old),
                        new_hash=hash_contents(file.new), mode=file.mode or _read_mode(folder, file.path),
                    )
                    for number, file in enumerate(changed)
                ),
            )  # fmt: skip
            try:
                with dreams.open_folder(PurePosixPath(changeset_id), make_mode=0o700) as own:
                    staged = ChangesetFolder(root, folder, own, changeset)
                    for each, file in zip(changeset.replacements, changed, strict=True):
                        if file.new is not None:
                            staged.new_file(each).create(file.new, 0o600)
                            staged.exchange_file(each).create(file.new, each.mode)
                    staged.save(changeset)
            except OSError:
                with suppress(OSError):
                    dreams.remove_tree(changeset_id)
                raise


def _read_mode(folder: AnchoredFolder, path: PurePosixPath) -> int:
    """Return the permissions of a file, or those that the folder's own suggest for a new one."""
    with suppress(FileNotFoundError), folder.open_parent(path) as file:
        return file.read_start(0)[1].st_mode & 0o777
    return folder.status.st_mode & 0o666


def check_repository(root: Path, paths: Collection[PurePosixPath]) -> None:
    """Raise StorageUnavailable where no version of these files could be committed, before somebody pays for one."""
    if paths and (repository := GitRepository.find(root, paths)):
        repository.check_filters(paths)


def publish(root: Path, changeset_id: str) -> PublicationResult:
    """Put staged files in place; what is left alone stays staged, as a proposal.

    In a git repository, a commit of the published files follows; if a hook refuses it, they are taken back.

    Raises:
        NotFound: there is no such changeset.
        StorageUnavailable: the disk is full or cannot be written; the message says what that means.
    """
    with open_changeset(root, changeset_id) as files:
        changeset = files.changeset
        chosen = _in_order(each for each in changeset.replacements if each.status is not ReplacementStatus.PUBLISHED)
        with storage_errors(root, _UNTOUCHED):
            for each in chosen:
                files.read_new(each)
            tracked = [each for each in chosen if each.path.parts[0] != OWN_FOLDER]
            repository = GitRepository.find(root, [each.path for each in tracked]) if tracked else None
            if repository is not None and not changeset.is_publishing:
                read = [each.path for each in tracked if _hash_file(files, each) == each.old_hash]
                try:
                    repository.commit_state(read, changeset_id)
                except Conflict as error:
                    outcomes = {each.path: FileOutcome.TAKEN_BACK for each in chosen}
                    return PublicationResult(id=changeset_id, outcomes=outcomes, refusal=error.message)
            files.save(changeset.with_updates({each.path: {"status": ReplacementStatus.PUBLISHING} for each in chosen}))
        with storage_errors(root, "each file is old or new, and the next start of a dream finishes the rest"):
            result = _put_in_place(files, chosen, repository)
            _finish(files)
            return result


def _put_in_place(
    files: ChangesetFolder, chosen: Sequence[FileReplacement], repository: GitRepository | None
) -> PublicationResult:
    """Run over files of a changeset whose journal says that it has begun. It may be repeated at any point."""
    outcomes = {each.path: files.place(each) for each in chosen}
    published = [each for each in chosen if outcomes[each.path] is FileOutcome.PUBLISHED]
    for each in published:
        if _hash_file(files, each) != each.new_hash:
            outcomes[each.path] = FileOutcome.CHANGED_AFTERWARDS
    edited = [each for each in published if hash_contents(files.read_old(each)) != each.old_hash]
    whole = [each for each in published if each not in edited]
    edited += [each for each in chosen if outcomes[each.path] is FileOutcome.EDITED_TWICE]
    done, commit, refusal = [*whole, *edited], files.changeset.commit, ""
    tracked = sorted(each.path for each in whole if each.path.parts[0] != OWN_FOLDER)
    if repository is not None and tracked:
        try:
            commit = repository.commit(tracked, files.changeset)
        except Conflict as error:
            refusal = error.message
            taken_back = [each for each in done if files.take_back(each)]
            outcomes |= {each.path: FileOutcome.TAKEN_BACK for each in taken_back}
            done = [each for each in done if each not in taken_back]
    ended = {True: ReplacementStatus.PUBLISHED, False: ReplacementStatus.STAGED}
    changeset = files.changeset.with_updates({each.path: {"status": ended[each in done]} for each in chosen})
    files.save(changeset.model_copy(update={"commit": commit}))
    rescued = tuple(map(files.exchange_path, edited))
    return PublicationResult(id=changeset.id, outcomes=outcomes, rescued=rescued, refusal=refusal)


def _hash_file(files: ChangesetFolder, each: FileReplacement) -> str | None:
    """Return the hash of a file of the folder; that of none if somebody has put something else in its place."""
    try:
        return hash_contents(files.folder.read_file(each.path))
    except OSError:
        return ""


def _finish(files: ChangesetFolder) -> None:
    """Show what is left of a proposal, or forget the changeset if nothing is."""
    if files.changeset.view is not None:
        _replace_view(files)
    if not files.changeset.replacements:
        _forget(files.folder, files.changeset.id)


def recover(root: Path) -> list[PublicationResult]:
    """Finish what a crash has cut off in the folder. Call it at each start, before anything else."""
    results = list[PublicationResult]()
    with open_anchored(root) as folder, storage_errors(root, "nothing is lost; try again"):
        for changeset_id in list_changeset_ids(root):
            with folder.open_folder(PurePosixPath(OWN_FOLDER, DREAMS_FOLDER, changeset_id)) as own:
                changeset = load_changeset(own)
            if changeset is None:
                _forget(folder, changeset_id)
                continue
            if changeset.is_publishing:
                results.append(publish(root, changeset_id))
            elif not changeset.proposed and (changeset.view is not None or not changeset.replacements):
                refuse(root, changeset_id)  # nothing is left, or only what shows it
            with suppress(NotFound), open_changeset(root, changeset_id) as files:
                if late := files.find_late_edits():
                    results.append(PublicationResult(id=changeset_id, outcomes={}, rescued=tuple(late)))
    return results


def propose(root: Path, changeset_id: str) -> str:
    """Let people look at what is staged; return the name of the branch, or the path of the folder, that shows it.

    The staged files are the truth: a view is made from them, and what is changed in it has no effect.

    Raises:
        NotFound: there is no such changeset.
        Conflict: there is a folder of that name which is none of ours.
    """
    with open_changeset(root, changeset_id) as files, storage_errors(root, _UNTOUCHED):
        return _replace_view(files)


def refuse(root: Path, changeset_id: str) -> None:
    """Drop staged files, and what shows them. Raises NotFound."""
    with open_changeset(root, changeset_id) as files, storage_errors(root, _UNTOUCHED):
        kept = tuple(each for each in files.changeset.replacements if each.status is not ReplacementStatus.STAGED)
        files.save(files.changeset.model_copy(update={"replacements": kept}))
        _finish(files)


def _in_order(replacements: Iterable[FileReplacement]) -> Sequence[FileReplacement]:
    """Return files in the order of their publication.

    What is taken out of a file is in its new place first; the index comes after the files that it names; files go last.
    """
    return sorted(
        replacements, key=lambda each: (each.new_hash is None, each.path.parts[0] != OWN_FOLDER, -len(each.path.parts))
    )


def _forget(folder: AnchoredFolder, changeset_id: str) -> None:
    with open_own_folder(folder, DREAMS_FOLDER) as dreams:
        dreams.remove_tree(changeset_id)


def _name_view(root: Path, changeset: Changeset) -> str:
    """Return the name of the branch, or the path of the folder, that shows the proposal."""
    if changeset.view == "branch":
        return f"circadia/dream-{changeset.id}"
    whole = root.resolve()
    return str(whole.with_name(f"{whole.name}.proposed-{changeset.id}"))


def _replace_view(files: ChangesetFolder) -> str:
    """Remove what shows the changeset, show what is still staged, and return the name of that.

    That is a branch where the memory folder is in a git repository, else a copy beside it.
    """
    root = files.root
    if files.changeset.view is not None:
        _remove_view(root, files.changeset)
    shown = [each for each in files.read_versions(ReplacementStatus.STAGED) if each.path.parts[0] != OWN_FOLDER]
    repository = GitRepository.find(root, [each.path for each in shown]) if shown else None
    view = None if not shown else "folder" if repository is None else "branch"
    changeset = files.changeset.model_copy(update={"view": view})
    name = _name_view(root, changeset)
    if view == "folder" and Path(name).exists():
        raise Conflict(f"{name!r} is there already; move it away to see the proposal there")
    files.save(changeset)  # first: a view that a crash has cut off is removed with its proposal
    if repository is not None:
        repository.show_on_branch(name, shown, changeset.title)
    elif view == "folder":
        _copy_folder(root, Path(name), shown)
    return name


def _copy_folder(root: Path, copy: Path, shown: Sequence[FileVersions]) -> None:
    """Copy the memory files beside the folder, with the proposed contents."""
    part = copy.with_name(f"{copy.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(mode=root.stat().st_mode & 0o777)
    contents: dict[PurePosixPath, tuple[bytes | None, int]] = {
        file.path: (file.document.data, 0o644) for file in read_folder(root).files
    }
    contents |= {each.path: (each.new, each.mode) for each in shown}
    with open_anchored(part) as top:
        for path, (data, mode) in contents.items():
            if data is not None:
                with top.open_folder(path.parent, make_mode=top.status.st_mode & 0o777) as parent:
                    parent.file(path.name).create(data, mode)
    part.rename(copy)


def _remove_view(root: Path, changeset: Changeset) -> None:
    name = _name_view(root, changeset)
    if changeset.view == "branch":
        GitRepository(root).remove_branch(name)
        return
    for each in (name, f"{name}.part"):
        shutil.rmtree(each, ignore_errors=True)


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
