"""A changeset: the files that one dream, or one undo, replaces in a memory folder, with their old and new contents.

It lies in `.circadia/dreams/ID/`: staged at first, then published, and from then on the history of that dream.
`manifest.json` is its journal. `N.new` is the new contents of file N. `N.exchange` is what is swapped with the file in
the folder: the new contents until the swap, the old file itself afterwards. So the contents tell at any instant how far
a publication has come, and nothing that the folder held is ever overwritten.
"""

import re
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Annotated, Final, Self

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, ValidationError

from circadia.errors import InvalidRequest, NotFound
from circadia.sleeptime.markdown.anchored_folder import (
    OWN_FOLDER,
    AnchoredFolder,
    FileLocation,
    check_path,
    hash_contents,
    open_anchored,
)

DREAMS_FOLDER: Final = "dreams"
_ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,99}")
_MANIFEST: Final = "manifest.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class FileVersions:
    """The contents of a file before and after a dream; None: there was no file."""

    path: PurePosixPath
    old: bytes | None
    new: bytes | None
    mode: int = 0
    """Its permissions; 0: those that it has, or its folder suggests."""


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

    @property
    def published(self) -> tuple[PurePosixPath, ...]:
        return tuple(sorted(self.paths_with(ReplacementStatus.PUBLISHED)))

    @property
    def proposed(self) -> tuple[PurePosixPath, ...]:
        return tuple(sorted(self.paths_with(ReplacementStatus.STAGED, ReplacementStatus.PUBLISHING)))

    def with_updates(self, updates: Mapping[PurePosixPath, Mapping[str, object]]) -> Self:
        """Return the changeset with fields of the replacements at these paths changed."""
        replacements = tuple(each.model_copy(update=updates.get(each.path)) for each in self.replacements)
        return self.model_copy(update={"replacements": replacements})

    def with_status(self, status: ReplacementStatus, paths: set[PurePosixPath]) -> Self:
        return self.with_updates({path: {"status": status} for path in paths})

    def without(self, paths: set[PurePosixPath]) -> Self:
        left = tuple(each for each in self.replacements if each.path not in paths)
        return self.model_copy(update={"replacements": left})

    def paths_with(self, *statuses: ReplacementStatus) -> set[PurePosixPath]:
        return {each.path for each in self.replacements if each.status in statuses}


class ChangesetFolder:
    """A changeset that is held open, with the memory folder to which it belongs."""

    def __init__(self, root: Path, folder: AnchoredFolder, own: AnchoredFolder, changeset: Changeset) -> None:
        self.root = root
        self.folder = folder
        self.changeset = changeset
        self._own = own

    def save(self, changeset: Changeset) -> None:
        """Write the manifest atomically, and remove the files of replacements that it no longer has."""
        self._own.write_atomically(_MANIFEST, changeset.model_dump_json(indent=1).encode())
        self._own.flush()
        self.changeset = changeset
        numbers = {str(each.number) for each in changeset.replacements}
        for name in self._own.list_names():
            number = name.partition(".")[0]
            if number.isdigit() and number not in numbers:
                self._own.file(name).remove()

    def new_file(self, replacement: FileReplacement) -> FileLocation:
        return self._own.file(f"{replacement.number}.new")

    def exchange_file(self, replacement: FileReplacement) -> FileLocation:
        return self._own.file(f"{replacement.number}.exchange")

    def exchange_path(self, replacement: FileReplacement) -> Path:
        """Return where people find the old file of a published replacement."""
        return self.root / OWN_FOLDER / DREAMS_FOLDER / self.changeset.id / self.exchange_file(replacement).name

    def flush(self) -> None:
        self._own.flush()

    def read_new(self, replacement: FileReplacement) -> bytes | None:
        """Return the new contents. Raises InvalidRequest if they are not what was staged."""
        data = self.new_file(replacement).read_contents()
        if hash_contents(data) != replacement.new_hash:
            raise InvalidRequest(
                f"the staged contents of {str(replacement.path)!r} were changed or removed; refuse the proposal"
            )
        return data

    def read_old(self, replacement: FileReplacement) -> bytes | None:
        """Return what a published replacement has taken out of the folder."""
        return None if replacement.old_hash is None else self.exchange_file(replacement).read_contents()

    def read_versions(self, *statuses: ReplacementStatus) -> list[FileVersions]:
        """Return the files with one of these statuses; what is not published is to replace the contents of now."""
        versions = list[FileVersions]()
        for each in self.changeset.replacements:
            if each.status in statuses:
                is_published = each.status is ReplacementStatus.PUBLISHED
                old = self.read_old(each) if is_published else self.folder.read_file(each.path)
                versions.append(FileVersions(path=each.path, old=old, new=self.read_new(each), mode=each.mode))
        return versions

    def find_late_edits(self) -> Mapping[PurePosixPath, str | None]:
        """Return the hashes of old files that were edited after their publication had ended."""
        saved, hashes = self._own.file(_MANIFEST).read_status(), dict[PurePosixPath, str | None]()
        for each in self.changeset.replacements:
            edited = self.exchange_file(each).read_status() if each.status is ReplacementStatus.PUBLISHED else None
            if edited and saved and edited.st_mtime_ns >= saved.st_mtime_ns:
                found = hash_contents(self.read_old(each))
                hashes |= {each.path: found} if found != each.old_hash else {}
        return hashes


def load_changeset(own: AnchoredFolder) -> Changeset | None:
    """Return the changeset in its folder, or None where its staging was cut off."""
    text = own.file(_MANIFEST).read_contents()
    try:
        return None if text is None else Changeset.model_validate_json(text)
    except ValidationError as error:
        raise InvalidRequest(
            f"a manifest in {OWN_FOLDER}/{DREAMS_FOLDER} is damaged: {error.errors()[0]['msg']}; "
            "remove its folder to forget that dream"
        ) from error


@contextmanager
def open_changeset(root: Path, changeset_id: str) -> Generator[ChangesetFolder]:
    """Open a changeset of a memory folder. Raises NotFound."""
    check_changeset_id(changeset_id)
    with ExitStack() as opened:
        folder = opened.enter_context(open_anchored(root))
        try:
            own = opened.enter_context(folder.open_folder(PurePosixPath(OWN_FOLDER, DREAMS_FOLDER, changeset_id)))
        except FileNotFoundError:
            raise unknown_dream(changeset_id) from None
        changeset = load_changeset(own)
        if changeset is None or changeset.id != changeset_id:
            raise unknown_dream(changeset_id)
        yield ChangesetFolder(root, folder, own, changeset)


def unknown_dream(changeset_id: str) -> NotFound:
    return NotFound(f"no dream {changeset_id!r} has changed this folder; `circadia dream log` lists them")


def list_changeset_ids(root: Path) -> list[str]:
    """Return the ids of the changesets of a memory folder; of those that are being staged just now, too."""
    with suppress(FileNotFoundError), open_anchored(root) as folder:
        with folder.open_folder(PurePosixPath(OWN_FOLDER, DREAMS_FOLDER)) as dreams:
            return [name for name in dreams.list_names() if _ID.fullmatch(name)]
    return []


def check_changeset_id(changeset_id: str) -> None:
    if not _ID.fullmatch(changeset_id):
        raise InvalidRequest(f"{changeset_id!r} is no id of a dream; `circadia dream log` lists them")
