"""What shows a proposal to people: a branch where the memory folder is in a git repository, else a copy beside it.

The staged files are the truth: a view is made from them, and what is changed in it has no effect.
"""

import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path

from circadia.errors import Conflict
from circadia.sleeptime.markdown.anchored_folder import OWN_FOLDER, AnchoredFolder, open_anchored
from circadia.sleeptime.markdown.changeset import Changeset, ChangesetFolder, ProposalView, ReplacementStatus
from circadia.sleeptime.markdown.git_repository import FileVersions, GitRepository


def name_view(root: Path, changeset: Changeset) -> str:
    """Return the name of the branch, or the path of the folder, that shows the proposal."""
    if changeset.view is ProposalView.BRANCH:
        return f"circadia/dream-{changeset.id}"
    whole = root.resolve()
    return str(whole.with_name(f"{whole.name}.proposed-{changeset.id}"))


def replace_view(root: Path, folder: AnchoredFolder, files: ChangesetFolder, changeset: Changeset) -> Changeset:
    """Remove the changeset's view, make a new one of what is still staged, and return the changeset with it.

    Raises:
        Conflict: there is a folder of that name which is none of ours.
    """
    if changeset.view is not None:
        _remove(root, changeset)
    shown = [
        FileVersions(path=each.path, old=folder.read_file(each.path), new=files.read_new(each), mode=each.mode)
        for each in changeset.replacements
        if each.status is ReplacementStatus.STAGED and each.path.parts[0] != OWN_FOLDER
    ]
    repository = GitRepository.find(root, [each.path for each in shown]) if shown else None
    view = None if not shown else ProposalView.FOLDER if repository is None else ProposalView.BRANCH
    changeset = changeset.model_copy(update={"view": view})
    name = name_view(root, changeset)
    if view is ProposalView.FOLDER and Path(name).exists():
        raise Conflict(f"{name!r} is there already; move it away to see the proposal there")
    files.save(changeset)  # first: a view that a crash has cut off is removed with its proposal
    if repository is not None:
        _, commit = repository.build_commit(shown, changeset.id, changeset.title, changeset.undoes)
        repository.set_branch(name, commit)
    elif view is ProposalView.FOLDER:
        _copy_folder(root, Path(name), shown)
    return changeset


def _copy_folder(root: Path, copy: Path, shown: list[FileVersions]) -> None:
    part = copy.with_name(f"{copy.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    shutil.copytree(root, part, symlinks=True, ignore=_find_uncopied, copy_function=_copy_if_there)
    with open_anchored(part) as top:
        for each in shown:
            with top.open_folder(each.path.parent, make_mode=top.status.st_mode & 0o777) as parent:
                file = parent.file(each.path.name)
                file.remove()
                if each.new is not None:
                    file.create(each.new, each.mode)
    part.rename(copy)


def _find_uncopied(folder: str, names: list[str]) -> set[str]:
    """Return what a copy lacks: Circadia's and git's own, and what is no file or cannot be read."""
    return {name for name in names if name in (OWN_FOLDER, ".git") or not _is_readable(Path(folder, name))}


def _is_readable(path: Path) -> bool:
    try:
        mode = path.lstat().st_mode
    except OSError:
        return False
    return stat.S_ISLNK(mode) or ((stat.S_ISREG(mode) or stat.S_ISDIR(mode)) and os.access(path, os.R_OK))


def _copy_if_there(source: str, target: str) -> None:
    """Copy a file, which an agent may remove meanwhile."""
    with suppress(FileNotFoundError):
        shutil.copy2(source, target, follow_symlinks=False)


def _remove(root: Path, changeset: Changeset) -> None:
    name = name_view(root, changeset)
    if changeset.view is ProposalView.BRANCH:
        GitRepository(root).remove_branch(name)
        return
    for each in (name, f"{name}.part"):
        shutil.rmtree(each, ignore_errors=True)
