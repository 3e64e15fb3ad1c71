"""A changeset: the files that one dream, or one undo, replaces in a memory folder, with their old and new contents.

It lies in `.circadia/dreams/ID/`: staged at first, then published, and from then on the history of that dream.
`manifest.json` is its journal. `N.new` is the new contents of file N. `N.exchange` is what is swapped with the file in
the folder: the new contents until the swap, the old file itself afterwards. So the contents tell at any instant how far
a publication has come, and nothing that the folder held is ever overwritten.
"""

import re
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Annotated, Final, Self

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, ValidationError

from circadia.errors import InvalidRequest, NotFound
from circadia.sleeptime.markdown.anchored_folder import (
    OWN_FOLDER,
    AnchoredFolder,
    FileLocation,
    check_path,
    hash_contents,
)

DREAMS_FOLDER: Final = "dreams"
_ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,99}")
_MANIFEST: Final = "manifest.json"


class ReplacementStatus(StrEnum):
    STAGED = "staged"
    """A proposal."""
    PUBLISHING = "publishing"
    """Its publication has begun; a crash leaves it so, and recovery finishes it."""
    PUBLISHED = "published"


class ProposalView(StrEnum):
    """What shows a proposal to people."""

    FOLDER = "folder"
    """A whole copy of the folder beside it."""
    BRANCH = "branch"


def _checked_path(path: PurePosixPath) -> PurePosixPath:
    check_path(path)
    return path


class FileReplacement(BaseModel):
    """New contents for one file, and what they replace."""

    model_config = ConfigDict(frozen=True)

    path: Annotated[PurePosixPath, AfterValidator(_checked_path)]
    number: int
    """Names its files in the changeset's folder."""
    old_hash: str | None
    """SHA-256 of the contents that the dream read; None: there was no file."""
    new_hash: str | None
    """None: the file is taken out."""
    mode: int
    """Permissions of the file, or of the one to make."""
    status: ReplacementStatus = ReplacementStatus.STAGED


class Changeset(BaseModel):
    model_config = ConfigDict(frozen=True)

    id: str
    created_at: AwareDatetime
    title: str
    undoes: str | None = None
    """The changeset that this one takes back."""
    left_out: tuple[str, ...] = ()
    """What a dream did not write, and why."""
    commit: str | None = None
    """The git commit of what was published."""
    view: ProposalView | None = None
    replacements: tuple[FileReplacement, ...]

    def with_status(self, status: ReplacementStatus, paths: set[PurePosixPath]) -> Self:
        """Return the changeset with the status of the files at `paths` changed."""
        replacements = tuple(
            each.model_copy(update={"status": status}) if each.path in paths else each for each in self.replacements
        )
        return self.model_copy(update={"replacements": replacements})

    def with_old_hashes(self, hashes: Mapping[PurePosixPath, str | None]) -> Self:
        """Return the changeset with other hashes of the old files at these paths."""
        replacements = tuple(
            each.model_copy(update={"old_hash": hashes[each.path]}) if each.path in hashes else each
            for each in self.replacements
        )
        return self.model_copy(update={"replacements": replacements})

    def without(self, paths: set[PurePosixPath]) -> Self:
        left = tuple(each for each in self.replacements if each.path not in paths)
        return self.model_copy(update={"replacements": left})

    def paths_with(self, *statuses: ReplacementStatus) -> set[PurePosixPath]:
        return {each.path for each in self.replacements if each.status in statuses}


class ChangesetFolder:
    def __init__(self, folder: AnchoredFolder) -> None:
        self._folder = folder

    def load(self) -> Changeset | None:
        """Return the changeset, or None where its staging was cut off."""
        text = self._folder.file(_MANIFEST).read_contents()
        try:
            return None if text is None else Changeset.model_validate_json(text)
        except ValidationError as error:
            raise InvalidRequest(
                f"a manifest in {OWN_FOLDER}/{DREAMS_FOLDER} is damaged: {error.errors()[0]['msg']}; "
                "remove its folder to forget that dream"
            ) from error

    def save(self, changeset: Changeset) -> None:
        """Write the manifest atomically, and remove the files of replacements that it no longer has."""
        draft = self._folder.file(f"{_MANIFEST}.draft")
        draft.remove()
        draft.create(changeset.model_dump_json(indent=1).encode(), 0o600)
        draft.replace(self._folder.file(_MANIFEST))
        self._folder.flush()
        numbers = {str(each.number) for each in changeset.replacements}
        for name in self._folder.list_names():
            number = name.partition(".")[0]
            if number.isdigit() and number not in numbers:
                self._folder.file(name).remove()

    def new_file(self, replacement: FileReplacement) -> FileLocation:
        return self._folder.file(f"{replacement.number}.new")

    def exchange_file(self, replacement: FileReplacement) -> FileLocation:
        return self._folder.file(f"{replacement.number}.exchange")

    def flush(self) -> None:
        self._folder.flush()

    def read_new(self, replacement: FileReplacement) -> bytes | None:
        """Return the new contents. Raises InvalidRequest if they are not what was staged."""
        data = self.new_file(replacement).read_contents()
        if hash_contents(data) != replacement.new_hash:
            raise InvalidRequest(
                f"the staged contents of {str(replacement.path)!r} were changed or removed; refuse the proposal"
            )
        return data

    def hash_late_edits(self, changeset: Changeset) -> dict[PurePosixPath, str | None]:
        """Return the hashes of old files that were edited after their publication had ended."""
        saved = self._folder.file(_MANIFEST).read_status()
        hashes = dict[PurePosixPath, str | None]()
        for each in changeset.replacements:
            edited = self.exchange_file(each).read_status()
            if (
                each.status is ReplacementStatus.PUBLISHED
                and edited
                and saved
                and edited.st_mtime_ns >= saved.st_mtime_ns
            ):
                hashes[each.path] = hash_contents(self.read_old(each))
        old = {each.path: each.old_hash for each in changeset.replacements}
        return {path: found for path, found in hashes.items() if found != old[path]}

    def read_old(self, replacement: FileReplacement) -> bytes | None:
        """Return what a published replacement has taken out of the folder."""
        return None if replacement.old_hash is None else self.exchange_file(replacement).read_contents()


@contextmanager
def open_changeset(folder: AnchoredFolder, changeset_id: str) -> Generator[tuple[ChangesetFolder, Changeset]]:
    """Open a changeset of a memory folder. Raises NotFound."""
    check_changeset_id(changeset_id)
    with ExitStack() as opened:
        unknown = NotFound(f"there is no dream {changeset_id!r} in this folder; `circadia dream log` lists them")
        try:
            own = opened.enter_context(folder.open_folder(PurePosixPath(OWN_FOLDER, DREAMS_FOLDER, changeset_id)))
        except FileNotFoundError:
            raise unknown from None
        files = ChangesetFolder(own)
        changeset = files.load()
        if changeset is None or changeset.id != changeset_id:
            raise unknown
        yield files, changeset


def list_changeset_ids(folder: AnchoredFolder) -> list[str]:
    """Return the ids of the changesets of a memory folder; of those that are being staged just now, too."""
    with suppress(FileNotFoundError), folder.open_folder(PurePosixPath(OWN_FOLDER, DREAMS_FOLDER)) as dreams:
        return [name for name in dreams.list_names() if _ID.fullmatch(name)]
    return []


def check_changeset_id(changeset_id: str) -> None:
    if not _ID.fullmatch(changeset_id):
        raise InvalidRequest(f"{changeset_id!r} is no id of a dream; `circadia dream log` lists them")
