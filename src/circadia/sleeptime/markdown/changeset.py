"""A changeset: the files that one dream, or one undo, replaces in a memory folder, with their old and new contents.

It lies in `.circadia/dreams/ID/`: staged at first, then published, and from then on the history of that dream.
`manifest.json` is its journal. `N.new` is the new contents of file N. `N.exchange` is what is swapped with the file in
the folder: the new contents until the swap, the old file itself afterwards. So the contents tell at any instant how far
a publication has come, and nothing that the folder held is ever overwritten.
"""

import errno
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, ValidationError

from circadia.errors import InvalidRequest, NotFound
from circadia.sleeptime.markdown.anchored_folder import (
    LEADS_OUT,
    OWN_FOLDER,
    AnchoredFolder,
    FileLocation,
    check_path,
    hash_contents,
    open_anchored,
)

DREAMS_FOLDER: Final = "dreams"
_NOT_WRITABLE: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.EXDEV})
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


class FileOutcome(StrEnum):
    PUBLISHED = "published"
    CHANGED_MEANWHILE = "changed meanwhile"
    """Somebody changed the file after the dream read it: it is left alone, and the new version stays a proposal."""
    READ_ONLY = "read-only"
    """The file may not be written, or lies on another disk: it is left alone, and the new version stays a proposal."""
    CHANGED_AFTERWARDS = "changed afterwards"
    """Published, and somebody has written to it since."""
    TAKEN_BACK = "taken back"
    """The repository refuses the commit: the file is as it was, and the new version stays a proposal."""
    EDITED_TWICE = "edited twice"
    """Both versions were edited during the swap: the later edit is in the folder, the other one in `rescued`."""


class FileReplacement(BaseModel):
    """New contents for one file, and what they replace."""

    model_config = ConfigDict(frozen=True)

    path: Annotated[PurePosixPath, AfterValidator(check_path)]
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
    view: Literal["folder", "branch"] | None = None
    """What shows a proposal to people: a copy of the memory files beside the folder, or a branch."""
    replacements: tuple[FileReplacement, ...]

    @property
    def published(self) -> tuple[PurePosixPath, ...]:
        return tuple(sorted(each.path for each in self.replacements if each.status is ReplacementStatus.PUBLISHED))

    @property
    def proposed(self) -> tuple[PurePosixPath, ...]:
        return tuple(sorted({each.path for each in self.replacements} - set(self.published)))

    @property
    def is_publishing(self) -> bool:
        return any(each.status is ReplacementStatus.PUBLISHING for each in self.replacements)

    def with_updates(self, updates: Mapping[PurePosixPath, Mapping[str, object]]) -> Self:
        """Return the changeset with fields of the replacements at these paths changed."""
        replacements = tuple(each.model_copy(update=updates.get(each.path)) for each in self.replacements)
        return self.model_copy(update={"replacements": replacements})


class ChangesetFolder:
    """A changeset that is held open, with the memory folder to which it belongs.

    It puts files in place so that no edit is lost, whenever it comes: the new contents are swapped with the file, and
    what comes out is checked again. An edit that came between the first check and the swap goes back in place. Each
    step may be repeated after a crash.
    """

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

    def find_late_edits(self) -> Sequence[Path]:
        """Return old files that were edited after their publication had ended, each edit once.

        Programs that had them open while they were swapped do so.
        """
        saved, updates = self._own.file(_MANIFEST).read_status(), dict[PurePosixPath, Mapping[str, object]]()
        for each in self.changeset.replacements:
            edited = self.exchange_file(each).read_status() if each.status is ReplacementStatus.PUBLISHED else None
            if edited and saved and edited.st_mtime_ns >= saved.st_mtime_ns:
                found = hash_contents(self.read_old(each))
                updates |= {each.path: {"old_hash": found}} if found != each.old_hash else {}
        if updates:
            self.save(self.changeset.with_updates(updates))
        return [self.exchange_path(each) for each in self.changeset.replacements if each.path in updates]

    def place(self, each: FileReplacement) -> FileOutcome:
        """Put one file in place, or find that an earlier run has."""
        staged = self.exchange_file(each)
        make_mode = self.folder.status.st_mode & 0o777 if each.old_hash is None else None
        try:
            with self.folder.open_folder(each.path.parent, make_mode=make_mode) as parent:
                file = parent.file(each.path.name)
                if each.old_hash is None:
                    outcome = self._make_file(each, staged, file)
                elif each.new_hash is None:
                    outcome = self._take_out(each, staged, file)
                else:
                    outcome = self._swap(each, staged, file)
                parent.flush()
                self._own.flush()
            if each.new_hash is None and outcome is FileOutcome.PUBLISHED:
                self.folder.remove_empty_folders(each.path.parent)
        except FileNotFoundError:
            # An earlier run may have taken the file out, and its empty folder with it.
            is_taken_out = each.new_hash is None and hash_contents(staged.read_contents()) == each.old_hash
            return FileOutcome.PUBLISHED if is_taken_out else FileOutcome.CHANGED_MEANWHILE
        except FileExistsError:
            return FileOutcome.CHANGED_MEANWHILE
        except OSError as error:
            if error.errno in _NOT_WRITABLE:
                return FileOutcome.READ_ONLY
            if error.errno in LEADS_OUT:
                return FileOutcome.CHANGED_MEANWHILE
            raise
        return outcome

    def take_back(self, each: FileReplacement) -> bool:
        """Restore a file that was put in place; return False if somebody has changed it since."""
        old_hash = hash_contents(self.exchange_file(each).read_contents())
        reverse = each.model_copy(update={"old_hash": each.new_hash, "new_hash": old_hash})
        return self.place(reverse) is FileOutcome.PUBLISHED

    def _make_file(self, each: FileReplacement, staged: FileLocation, file: FileLocation) -> FileOutcome:
        if staged.read_status() is not None:
            staged.take_owner_and_mode(self.folder.status, each.mode)
            staged.move_to_free_name(file)
        return FileOutcome.PUBLISHED

    def _take_out(self, each: FileReplacement, staged: FileLocation, file: FileLocation) -> FileOutcome:
        if staged.read_status() is None:
            refusal = self._refuse(each, file)
            if refusal is not None:
                return refusal
            file.replace(staged)
        if hash_contents(staged.read_contents()) == each.old_hash:
            return FileOutcome.PUBLISHED
        try:  # edited after the check
            staged.move_to_free_name(file)
        except FileExistsError:
            return FileOutcome.EDITED_TWICE
        return FileOutcome.CHANGED_MEANWHILE

    def _swap(self, each: FileReplacement, staged: FileLocation, file: FileLocation) -> FileOutcome:
        staged.finish_exchange()
        if hash_contents(staged.read_contents()) == each.new_hash:
            refusal = self._refuse(each, file)
            if refusal is not None:
                return refusal
            status = file.read_status()
            if status is None:
                return FileOutcome.CHANGED_MEANWHILE
            staged.take_owner_and_mode(status, status.st_mode & 0o7777)
            staged.exchange(file)
        if hash_contents(staged.read_contents()) == each.old_hash:
            return FileOutcome.PUBLISHED
        # Somebody edited the file between the check and the swap: back with the edit, unless there is a newer one.
        if hash_contents(file.read_contents()) != each.new_hash:
            return FileOutcome.EDITED_TWICE
        staged.exchange(file)
        if hash_contents(staged.read_contents()) == each.new_hash:
            return FileOutcome.CHANGED_MEANWHILE
        staged.exchange(file)
        return FileOutcome.EDITED_TWICE

    def _refuse(self, each: FileReplacement, file: FileLocation) -> FileOutcome | None:
        """Return why a file is left alone, or None."""
        if hash_contents(file.read_contents()) != each.old_hash:
            return FileOutcome.CHANGED_MEANWHILE
        status = file.read_status()
        return None if status and status.st_mode & 0o200 and file.is_writable() else FileOutcome.READ_ONLY


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
