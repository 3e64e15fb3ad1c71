"""One file of a publication: put in place so that no edit is lost, whenever it comes.

The new contents are swapped with the file, and what comes out is checked again: an edit that came between the first
check and the swap goes back in place. Each step may be repeated after a crash.
"""

import errno
from enum import StrEnum
from typing import Final

from circadia.sleeptime.markdown.anchored_folder import LEADS_OUT, FileLocation, hash_contents
from circadia.sleeptime.markdown.changeset import ChangesetFolder, FileReplacement

_NOT_WRITABLE: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.EXDEV})


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


class FileSwap:
    """Puts files of a changeset in place in its memory folder."""

    def __init__(self, files: ChangesetFolder) -> None:
        self._folder = files.folder
        self._files = files

    def place(self, each: FileReplacement) -> FileOutcome:
        """Put one file in place, or find that an earlier run has."""
        staged = self._files.exchange_file(each)
        make_mode = self._folder.status.st_mode & 0o777 if each.old_hash is None else None
        try:
            with self._folder.open_folder(each.path.parent, make_mode=make_mode) as parent:
                file = parent.file(each.path.name)
                if each.old_hash is None:
                    outcome = self._make_file(each, staged, file)
                elif each.new_hash is None:
                    outcome = self._take_out(each, staged, file)
                else:
                    outcome = self._swap(each, staged, file)
                parent.flush()
                self._files.flush()
            if each.new_hash is None and outcome is FileOutcome.PUBLISHED:
                self._folder.remove_empty_folders(each.path.parent)
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
        old_hash = hash_contents(self._files.exchange_file(each).read_contents())
        reverse = each.model_copy(update={"old_hash": each.new_hash, "new_hash": old_hash})
        return self.place(reverse) is FileOutcome.PUBLISHED

    def _make_file(self, each: FileReplacement, staged: FileLocation, file: FileLocation) -> FileOutcome:
        if staged.read_status() is not None:
            staged.take_owner_and_mode(self._folder.status, each.mode)
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
