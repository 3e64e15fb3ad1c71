"""Publish the files of a dream into its memory folder: staged beside, checked, swapped in one by one, with a journal.

A crash at any instant leaves each file old or new, and `recover` finishes the rest. A file that somebody changed since
the dream read it is left alone. Call all of this with the folder's lock held.
"""

import errno
import os
import stat
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Final

from circadia.errors import Conflict, InvalidRequest, NotFound
from circadia.sleeptime.markdown.anchored_folder import (
    LEADS_OUT,
    OWN_FOLDER,
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
    FileReplacement,
    ReplacementStatus,
    check_changeset_id,
    list_changeset_ids,
    open_changeset,
)
from circadia.sleeptime.markdown.file_swap import NOT_WRITABLE, FileOutcome, FileSwap
from circadia.sleeptime.markdown.git_repository import GitRepository
from circadia.sleeptime.markdown.proposal_view import name_view, replace_view

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
    root: Path, changeset_id: str, replacements: Mapping[PurePosixPath, bytes | None],
    expected: Mapping[PurePosixPath, str | None], *, now: datetime, title: str, undoes: str | None = None,
    modes: Mapping[PurePosixPath, int] | None = None, left_out: Sequence[str] = (),
) -> Changeset:  # fmt: skip
    """Write new contents beside the folder's files, and flush them to the disk; no file of the folder changes.

    Args:
        root: the memory folder.
        changeset_id: names the changeset from now on.
        replacements: new contents by path; None takes the file out.
        expected: SHA-256 of what each file held when the dream read it; None: there was none.
        now, title, undoes, left_out: for the history.
        modes: permissions of files that are made; else those of the folder.

    Raises:
        InvalidRequest: a path leads out of the folder, is no Markdown file, or differs only in case from another one.
        Conflict: the id is taken.
        StorageUnavailable: the disk is full or cannot be written; nothing is left behind.
    """
    check_changeset_id(changeset_id)
    _check_paths(replacements)
    with open_anchored(root) as folder, storage_errors(root, _UNTOUCHED):
        for path in replacements:
            folder.check_spelling(path)
        with open_own_folder(folder, DREAMS_FOLDER) as dreams:
            if changeset_id in dreams.list_names():
                raise Conflict(f"there is a dream {changeset_id!r} in {str(root)!r} already; take a new id")
            changeset = Changeset(
                id=changeset_id,
                created_at=now,
                title=title,
                undoes=undoes,
                left_out=tuple(left_out),
                replacements=_list_replacements(folder, replacements, expected, modes or {}),
            )
            try:
                with dreams.open_folder(PurePosixPath(changeset_id), make_mode=0o700) as own:
                    _write_changeset(ChangesetFolder(own), changeset, replacements)
            except OSError:
                with suppress(OSError):
                    dreams.remove_tree(changeset_id)
                raise
    return changeset


def _check_paths(paths: Collection[PurePosixPath]) -> None:
    for path in paths:
        check_path(path)
    if len({fold_name(str(path)) for path in paths}) < len(paths):
        raise InvalidRequest("two of the paths differ only in case; a disk may take them for one file")


def _list_replacements(
    folder: AnchoredFolder,
    contents: Mapping[PurePosixPath, bytes | None],
    expected: Mapping[PurePosixPath, str | None],
    modes: Mapping[PurePosixPath, int],
) -> tuple[FileReplacement, ...]:
    """Describe the files whose contents change."""
    hashes = {path: hash_contents(data) for path, data in contents.items()}
    return tuple(
        FileReplacement(
            path=path,
            number=number,
            old_hash=expected[path],
            new_hash=new_hash,
            mode=modes[path] if path in modes else _read_mode(folder, path),
        )
        for number, (path, new_hash) in enumerate(hashes.items())
        if new_hash != expected[path]
    )


def _write_changeset(
    files: ChangesetFolder, changeset: Changeset, contents: Mapping[PurePosixPath, bytes | None]
) -> None:
    for each in changeset.replacements:
        data = contents[each.path]
        if data is not None:
            files.new_file(each).create(data, 0o600)
            files.exchange_file(each).create(data, each.mode)
    files.save(changeset)


def _read_mode(folder: AnchoredFolder, path: PurePosixPath) -> int:
    """Return the permissions of a file, or those that the folder's own suggest for a new one."""
    with suppress(FileNotFoundError), folder.open_parent(path) as (_, file):
        status = file.read_status()
        if status is not None:
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
            return status.st_mode & 0o777
    return folder.status.st_mode & 0o666


def publish(root: Path, changeset_id: str, paths: Iterable[PurePosixPath] | None = None) -> PublicationResult:
    """Put staged files in place, all or those at `paths`; what is left alone stays staged, as a proposal.

    In a git repository, a commit of the published files follows; if a hook refuses it, they are taken back.

    Raises:
        NotFound: there is no such changeset, or it has no staged file at one of the paths.
        StorageUnavailable: the disk is full or cannot be written; the message says what that means.
    """
    with open_anchored(root) as folder, open_changeset(folder, changeset_id) as (files, changeset):
        chosen = _choose(changeset, paths, ReplacementStatus.STAGED, ReplacementStatus.PUBLISHING)
        with storage_errors(root, _UNTOUCHED):
            for each in changeset.replacements:
                if each.path in chosen and each.new_hash is not None:
                    files.read_new(each)
            tracked = [path for path in sorted(chosen) if path.parts[0] != OWN_FOLDER]
            repository = GitRepository.find(root, tracked) if tracked else None
            if repository is not None and not changeset.paths_with(ReplacementStatus.PUBLISHING):
                try:
                    read = {each.path for each in changeset.replacements if _is_as_read(folder, each)}
                    repository.commit_state([path for path in tracked if path in read], changeset_id)
                except Conflict as error:
                    outcomes = dict.fromkeys(chosen, FileOutcome.TAKEN_BACK)
                    return PublicationResult(id=changeset_id, outcomes=outcomes, refusal=error.message)
            for each in changeset.replacements:
                if each.path in chosen and each.new_hash is not None:
                    _make_parents(folder, each.path)
            changeset = changeset.with_status(ReplacementStatus.PUBLISHING, chosen)
            files.save(changeset)
        with storage_errors(root, "each file is old or new, and the next start of a dream finishes the rest"):
            result, changeset = _Publication(root, folder, files, changeset, repository).run(chosen)
            if changeset.view is not None:
                changeset = replace_view(root, folder, files, changeset)
            if not changeset.replacements:
                _forget(folder, changeset_id)
            return result


def _is_as_read(folder: AnchoredFolder, each: FileReplacement) -> bool:
    with suppress(OSError):
        return hash_contents(folder.read_file(each.path)) == each.old_hash
    return False


def _make_parents(folder: AnchoredFolder, path: PurePosixPath) -> None:
    """Make the folders of a new file. Those that lead through a symlink show when the file is put in place."""
    try:
        with folder.open_folder(path.parent, make_mode=folder.status.st_mode & 0o777):
            pass
    except OSError as error:
        if error.errno not in LEADS_OUT | NOT_WRITABLE:
            raise


def recover(root: Path) -> list[PublicationResult]:
    """Finish what a crash has cut off in the folder. Call it at each start, before anything else."""
    results = list[PublicationResult]()
    with open_anchored(root) as folder, storage_errors(root, "nothing is lost; try again"):
        for changeset_id in list_changeset_ids(folder):
            with folder.open_folder(PurePosixPath(OWN_FOLDER, DREAMS_FOLDER, changeset_id)) as own:
                changeset = ChangesetFolder(own).load()
            if changeset is None:
                _forget(folder, changeset_id)
                continue
            if paths := changeset.paths_with(ReplacementStatus.PUBLISHING):
                results.append(publish(root, changeset_id, paths))
            elif not changeset.replacements or (
                changeset.view is not None and not changeset.paths_with(ReplacementStatus.STAGED)
            ):
                refuse(root, changeset_id)  # nothing is left, or only what shows it
            results += _find_late_edits(root, folder, changeset_id)
    return results


def _find_late_edits(root: Path, folder: AnchoredFolder, changeset_id: str) -> list[PublicationResult]:
    """Return edits of old files by programs that had them open while they were swapped, each once."""
    with suppress(NotFound), open_changeset(folder, changeset_id) as (files, changeset):
        late = files.hash_late_edits(changeset)
        if late:
            files.save(changeset.with_old_hashes(late))
            own = root / OWN_FOLDER / DREAMS_FOLDER / changeset_id
            edited = (each for each in changeset.replacements if each.path in late)
            rescued = tuple(own / files.exchange_file(each).name for each in edited)
            return [PublicationResult(id=changeset_id, outcomes={}, rescued=rescued)]
    return []


def propose(root: Path, changeset_id: str) -> str:
    """Let people look at what is staged; return the name of the branch, or the path of the folder, that shows it.

    Raises:
        NotFound: there is no such changeset.
        Conflict: the folder for it is there already.
    """
    with open_anchored(root) as folder, open_changeset(folder, changeset_id) as (files, changeset):
        with storage_errors(root, _UNTOUCHED):
            return name_view(root, replace_view(root, folder, files, changeset))


def refuse(root: Path, changeset_id: str, paths: Iterable[PurePosixPath] | None = None) -> None:
    """Drop staged files, all or those at `paths`, and what shows them. Raises InvalidRequest, NotFound."""
    with open_anchored(root) as folder, open_changeset(folder, changeset_id) as (files, changeset):
        chosen = _choose(changeset, paths, ReplacementStatus.STAGED)
        with storage_errors(root, _UNTOUCHED):
            changeset = changeset.without(chosen)
            files.save(changeset)
            if changeset.view is not None:
                changeset = replace_view(root, folder, files, changeset)
            if not changeset.replacements:
                _forget(folder, changeset_id)


def _choose(
    changeset: Changeset, paths: Iterable[PurePosixPath] | None, *statuses: ReplacementStatus
) -> set[PurePosixPath]:
    """Return the paths to work on: all in one of the statuses, or those given."""
    waiting = changeset.paths_with(*statuses)
    chosen = waiting if paths is None else set(paths)
    if not chosen <= waiting:
        names = ", ".join(sorted(map(str, chosen - waiting)))
        raise InvalidRequest(f"dream {changeset.id!r} proposes no change of {names}; `circadia dream diff` lists them")
    return chosen


def _forget(folder: AnchoredFolder, changeset_id: str) -> None:
    with open_own_folder(folder, DREAMS_FOLDER) as dreams:
        dreams.remove_tree(changeset_id)


class _Publication:
    """One run over the files of a changeset whose journal says that it has begun. It may be repeated at any point."""

    def __init__(
        self, root: Path, folder: AnchoredFolder, files: ChangesetFolder, changeset: Changeset,
        repository: GitRepository | None,
    ) -> None:  # fmt: skip
        self._root = root
        self._repository = repository
        self._folder = folder
        self._files = files
        self._changeset = changeset

    def run(self, chosen: set[PurePosixPath]) -> tuple[PublicationResult, Changeset]:
        # What is taken out of a file is in its new place first; the index comes after the files that it names; files
        # go last.
        order = sorted(
            (each for each in self._changeset.replacements if each.path in chosen),
            key=lambda each: (each.new_hash is None, each.path.parts[0] != OWN_FOLDER, -len(each.path.parts)),
        )
        swap = FileSwap(self._folder, self._files)
        outcomes = {each.path: swap.place(each) for each in order}
        published = [each for each in order if outcomes[each.path] is FileOutcome.PUBLISHED]
        for each in published:
            if hash_contents(self._read_back(each.path)) != each.new_hash:
                outcomes[each.path] = FileOutcome.CHANGED_AFTERWARDS
        edited = [
            each
            for each in order
            if outcomes[each.path] is FileOutcome.EDITED_TWICE
            or (each in published and hash_contents(self._files.read_old(each)) != each.old_hash)
        ]
        left = chosen - {each.path for each in published} - {each.path for each in edited}
        done = chosen - left
        refusal = self._commit(done - {each.path for each in edited})
        if refusal:
            taken_back = {each.path for each in order if each.path in done and swap.take_back(each)}
            outcomes |= dict.fromkeys(taken_back, FileOutcome.TAKEN_BACK)
            done, left = done - taken_back, left | taken_back
        self._changeset = self._changeset.with_status(ReplacementStatus.STAGED, left)
        self._changeset = self._changeset.with_status(ReplacementStatus.PUBLISHED, done)
        self._files.save(self._changeset)
        own = self._root / OWN_FOLDER / DREAMS_FOLDER / self._changeset.id
        rescued = tuple(own / self._files.exchange_file(each).name for each in edited)
        result = PublicationResult(id=self._changeset.id, outcomes=outcomes, rescued=rescued, refusal=refusal)
        return result, self._changeset

    def _read_back(self, path: PurePosixPath) -> bytes | None:
        try:
            return self._folder.read_file(path)
        except OSError:  # somebody has put something else in its place
            return b""

    def _commit(self, paths: set[PurePosixPath]) -> str:
        """Commit what was published, in a git repository; return why that is refused, empty if it is not."""
        wanted = sorted(path for path in paths if path.parts[0] != OWN_FOLDER)
        if self._repository is None or not wanted:
            return ""
        each = self._changeset
        try:
            commit = self._repository.commit(wanted, each.id, each.title, each.undoes)
        except Conflict as error:
            return error.message
        self._changeset = each.model_copy(update={"commit": commit})
        return ""
