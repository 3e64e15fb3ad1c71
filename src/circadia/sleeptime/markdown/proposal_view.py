"""What shows a proposal to people: a branch where the memory folder is in a git repository, else a copy beside it.

The staged files are the truth: a view is made from them, and what is changed in it has no effect.
"""

import shutil
from contextlib import suppress
from pathlib import Path, PurePosixPath

from circadia.errors import Conflict
from circadia.sleeptime.markdown.anchored_folder import OWN_FOLDER, AnchoredFolder, open_anchored
from circadia.sleeptime.markdown.changeset import Changeset, ChangesetFolder, ProposalView, ReplacementStatus
from circadia.sleeptime.markdown.git_repository import FileVersions, GitRepository
from circadia.sleeptime.markdown.memory_folder import read_folder


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
        repository.show_on_branch(name, shown, changeset.title)
    elif view is ProposalView.FOLDER:
        _copy_folder(root, Path(name), shown)
    return changeset


def _copy_folder(root: Path, copy: Path, shown: list[FileVersions]) -> None:
    """Copy the memory files beside the folder, with the proposed contents."""
    part = copy.with_name(f"{copy.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(mode=root.stat().st_mode & 0o777)
    contents: dict[PurePosixPath, tuple[bytes | None, int]] = {}
    for file in read_folder(root).files:
        with suppress(Conflict):  # an agent may change or remove it meanwhile
            contents[file.path] = file.read_data(), 0o644
    contents |= {each.path: (each.new, each.mode) for each in shown}
    with open_anchored(part) as top:
        for path, (data, mode) in contents.items():
            if data is not None:
                with top.open_folder(path.parent, make_mode=top.status.st_mode & 0o777) as parent:
                    parent.file(path.name).create(data, mode)
    part.rename(copy)


def _remove(root: Path, changeset: Changeset) -> None:
    name = name_view(root, changeset)
    if changeset.view is ProposalView.BRANCH:
        GitRepository(root).remove_branch(name)
        return
    for each in (name, f"{name}.part"):
        shutil.rmtree(each, ignore_errors=True)
