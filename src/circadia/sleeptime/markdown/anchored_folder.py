"""Files below one folder, reached from its descriptor so that no symlink leads out, and replaced atomically."""

import ctypes
import errno
import fcntl
import hashlib
import os
import stat
import sys
import unicodedata
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from circadia.errors import InvalidRequest, StorageUnavailable

OWN_FOLDER: Final = ".circadia"
"""Circadia's own folder in a memory folder."""
RETIRED_FOLDER: Final = PurePosixPath(OWN_FOLDER, "retired")
"""Where entries go that a dream takes out of their file."""
_LONGEST: Final = 255
"""Bytes of a name, on most disks."""
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
LEADS_OUT: Final = frozenset({errno.ELOOP, errno.ENOTDIR})
"""What a symlink in a path answers."""
_NO_EXCHANGE: Final = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})
"""What a file system without atomic exchange answers, such as NFS."""
_EXCHANGE: Final = 2
"""RENAME_EXCHANGE of Linux (linux/fs.h), and RENAME_SWAP of macOS (sys/stdio.h)."""


def hash_contents(data: bytes | None) -> str | None:
    """Return the SHA-256 of a file's contents in hex, or None where there is no file."""
    return None if data is None else hashlib.sha256(data).hexdigest()


def check_path(path: PurePosixPath) -> PurePosixPath:
    """Return the path of a Markdown file of the folder, or of retired entries. Raises InvalidRequest: it is none."""
    retired = path.is_relative_to(RETIRED_FOLDER)
    names = path.relative_to(RETIRED_FOLDER).parts if retired else path.parts
    is_utf8 = str(path).encode("utf-8", "replace").decode("utf-8") == str(path)
    usable = not path.is_absolute() and names and path.suffix.lower() == ".md" and is_utf8
    if not usable or any(name.startswith(".") or "\0" in name or len(os.fsencode(name)) > _LONGEST for name in names):
        raise InvalidRequest(
            f"{str(path)!r} is no path of a Markdown file inside the folder; give a relative path that ends in .md, "
            "in UTF-8, without `..` and without a name that starts with a dot"
        )
    return path


def fold_name(name: str) -> str:
    """Return the spelling that a case-insensitive disk compares."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


@contextmanager
def storage_errors(place: Path, consequence: str) -> Generator[None]:
    """Raise OSError again as InvalidRequest or StorageUnavailable, with what it means for the memory folder `place`."""
    try:
        yield
    except OSError as error:
        if error.errno in LEADS_OUT:
            name = error.filename or "a name"
            raise InvalidRequest(
                f"{name!r} in {str(place)!r} is a symlink or a special file, which no dream follows; {consequence}"
            ) from error
        reason = "the disk is full" if error.errno in _FULL else str(error)
        raise StorageUnavailable(f"cannot write in {str(place)!r}: {reason}; {consequence}") from error


@dataclass(frozen=True, slots=True)
class FileLocation:
    """A name in a folder that is held open. No operation follows a symlink."""

    folder: int
    name: str

    def open(self, flags: int) -> int:
        """Open the file, or make it readable for its owner alone, and return its descriptor."""
        return os.open(self.name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600, dir_fd=self.folder)

    def touch(self) -> float:
        """Set the file's time of change to the disk's present and return it."""
        os.utime(self.name, dir_fd=self.folder, follow_symlinks=False)
        return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False).st_mtime

    def read_status(self) -> os.stat_result | None:
        with suppress(FileNotFoundError):
            return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        return None

    def is_writable(self) -> bool:
        return os.access(self.name, os.W_OK, dir_fd=self.folder, effective_ids=True)

    def refuse_symlink(self) -> None:
        """Raise OSError if this is a symlink, for what opens the file by its path."""
        status = self.read_status()
        if status is not None and stat.S_ISLNK(status.st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), self.name)

    def read_contents(self) -> bytes | None:
        """Return the contents, or None where there is no file. Raises OSError if this is no regular file."""
        try:
            return self.read_start()[0]
        except FileNotFoundError:
            return None

    def read_start(self, size: int = -1) -> tuple[bytes, os.stat_result]:
        """Return the first bytes, all by default, and the status. Raises OSError if there is no regular file."""
        handle = self.open(os.O_RDONLY)
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                number = errno.EISDIR if stat.S_ISDIR(status.st_mode) else errno.ELOOP
                raise OSError(number, "it is no regular file", self.name)
            with os.fdopen(handle, "rb", closefd=False) as file:
                return file.read(size), status
        finally:
            os.close(handle)

    def create(self, data: bytes, mode: int) -> None:
        handle = self.open(os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(handle, mode)
            flush_to_disk(handle)

    def take_owner_and_mode(self, owner: os.stat_result, mode: int) -> None:
        """Give the file the owner of another one, where this process may, and permissions."""
        handle = self.open(os.O_RDONLY)
        try:
            with suppress(PermissionError):  # only root gives files away
                os.fchown(handle, owner.st_uid, owner.st_gid)
            os.fchmod(handle, mode)
            flush_to_disk(handle)
        finally:
            os.close(handle)

    def remove(self) -> None:
        """Remove the file, if there is one."""
        with suppress(FileNotFoundError):
            os.unlink(self.name, dir_fd=self.folder)

    def replace(self, other: "FileLocation") -> None:
        os.rename(self.name, other.name, src_dir_fd=self.folder, dst_dir_fd=other.folder)

    def link(self, other: "FileLocation") -> None:
        """Give the file a second name. Raises FileExistsError."""
        names = {"src_dir_fd": self.folder, "dst_dir_fd": other.folder}
        os.link(self.name, other.name, **names, follow_symlinks=False)

    def move_to_free_name(self, other: "FileLocation") -> None:
        """Move the file to a name that is free, and finish a move that a crash has cut off.

        Raises:
            FileExistsError: the name is taken by another file.
        """
        try:
            self.link(other)
        except FileExistsError:
            here, there = self.read_status(), other.read_status()
            if here is None or there is None or not os.path.samestat(here, there):
                raise
        self.remove()

    def exchange(self, other: "FileLocation") -> None:
        """Swap two files, so that each name has a whole file at any instant.

        A file system without exchange keeps the other file under a second name first. A file that is put in the other's
        place in just that moment is lost there.
        """
        if not _exchange_atomically(self, other):
            other.link(self._spare())
            self.replace(other)
            self._spare().replace(self)

    def finish_exchange(self) -> None:
        """Finish or take back an exchange without support of the file system that a crash has cut off."""
        spare = self._spare()
        if spare.read_status() is not None:
            if self.read_status() is None:
                spare.replace(self)
            else:
                spare.remove()

    def _spare(self) -> "FileLocation":
        return FileLocation(self.folder, f"{self.name}.spare")


def _exchange_atomically(one: FileLocation, other: FileLocation) -> bool:
    libc = ctypes.CDLL(None, use_errno=True)
    name = "renameatx_np" if sys.platform == "darwin" else "renameat2"
    rename = getattr(libc, name, None)
    if rename is None:
        return False
    names = os.fsencode(one.name), os.fsencode(other.name)
    if rename(one.folder, names[0], other.folder, names[1], ctypes.c_uint(_EXCHANGE)) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NO_EXCHANGE:
        return False
    raise OSError(number, os.strerror(number), one.name, None, other.name)


def flush_to_disk(handle: int) -> None:
    """Flush a file, or the names in a folder, to the disk."""
    if sys.platform == "darwin":
        fcntl.fcntl(handle, fcntl.F_FULLFSYNC)  # a plain fsync stops at the drive's cache there
    else:
        os.fsync(handle)


class AnchoredFolder:
    """A folder that is held open, and the files below it."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def file(self, name: str) -> FileLocation:
        return FileLocation(self._handle, name)

    @property
    def status(self) -> os.stat_result:
        return os.fstat(self._handle)

    def list_names(self) -> list[str]:
        return sorted(os.listdir(self._handle))

    def list_entries(self) -> list[tuple[str, bool, bool]]:
        """Return the names in this folder in order, and whether each is a link and a folder."""
        with os.scandir(self._handle) as entries:
            return sorted((entry.name, entry.is_symlink(), entry.is_dir(follow_symlinks=False)) for entry in entries)

    def write_atomically(self, name: str, data: bytes) -> None:
        """Write a file of this folder that its owner alone may read, at once or not at all."""
        draft = self.file(f"{name}.draft")
        draft.remove()
        draft.create(data, 0o600)
        draft.replace(self.file(name))

    def flush(self) -> None:
        """Flush the names in this folder to the disk."""
        flush_to_disk(self._handle)

    @contextmanager
    def open_folder(self, path: PurePosixPath, *, make_mode: int | None = None) -> Generator["AnchoredFolder"]:
        """Open a folder below this one, and make it with `make_mode` if that is given.

        Raises:
            OSError: it does not exist, or a part of the path is a symlink or no folder.
        """
        handle = os.dup(self._handle)
        try:
            for part in path.parts:
                if make_mode is not None:
                    with suppress(FileExistsError):
                        os.mkdir(part, make_mode, dir_fd=handle)
                        flush_to_disk(handle)
                below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=handle)
                os.close(handle)
                handle = below
            yield AnchoredFolder(handle)
        finally:
            os.close(handle)

    @contextmanager
    def open_parent(self, path: PurePosixPath) -> Generator[FileLocation]:
        """Open the folder of a file below this one, and yield the location of the file."""
        with self.open_folder(path.parent) as parent:
            yield parent.file(path.name)

    def read_file(self, path: PurePosixPath) -> bytes | None:
        """Return the contents of a file below this folder, or None where there is no file."""
        try:
            with self.open_parent(path) as file:
                return file.read_contents()
        except FileNotFoundError:
            return None

    def check_spelling(self, path: PurePosixPath) -> None:
        """Raise InvalidRequest if the path differs only in case from a name that is there."""
        for depth, part in enumerate(path.parts):
            with suppress(FileNotFoundError), self.open_folder(PurePosixPath(*path.parts[:depth])) as folder:
                others = {name for name in folder.list_names() if fold_name(name) == fold_name(part)} - {part}
                if others:
                    raise InvalidRequest(
                        f"{str(path)!r} differs only in case from {min(others)!r}, which is there already; rename one"
                    )

    def remove_empty_folders(self, path: PurePosixPath) -> None:
        """Remove a folder below this one and those above it, as far as they are empty."""
        with suppress(OSError):
            for folder in (path, *path.parents)[:-1]:
                with self.open_folder(folder.parent) as parent:
                    os.rmdir(folder.name, dir_fd=parent._handle)

    def remove_tree(self, name: str) -> None:
        with self.open_folder(PurePosixPath(name)) as folder:
            for each in folder.list_names():
                folder.file(each).remove()
        os.rmdir(name, dir_fd=self._handle)


@contextmanager
def open_anchored(path: Path) -> Generator[AnchoredFolder]:
    """Open a folder. Raises InvalidRequest if there is none."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise InvalidRequest(
            f"{str(path)!r} is no folder that can be opened: {error.strerror}; name another"
        ) from error
    try:
        yield AnchoredFolder(handle)
    finally:
        os.close(handle)


@contextmanager
def open_own_folder(folder: AnchoredFolder, below: str = "") -> Generator[AnchoredFolder]:
    """Open `.circadia`, or a folder in it; make it, hidden from git, if it is not there."""
    with folder.open_folder(PurePosixPath(OWN_FOLDER), make_mode=0o700) as own:
        ignore = own.file(".gitignore")
        if not ignore.read_contents():  # also where a full disk has left it empty
            ignore.remove()
            with suppress(FileExistsError):  # another process has just made it
                ignore.create(b"*\n", 0o600)
        with own.open_folder(PurePosixPath(below), make_mode=0o700) as inner:
            yield inner
