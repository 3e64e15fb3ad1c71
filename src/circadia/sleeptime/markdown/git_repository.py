"""The git repository that a memory folder lies in: commits of exact contents, whatever else a person has changed."""

import os
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Final

from circadia.errors import StorageUnavailable

_TIMEOUT_SECONDS: Final = 120
_OF_A_CALLER: Final = frozenset({
    "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX",
    "GIT_NAMESPACE", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
})  # fmt: skip
"""Variables that name another repository where a git hook started this process."""
_QUIET: Final = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "log.showSignature=false")
_UNFINISHED: Final = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD")
"""Of a merge that a person is in the middle of."""
_NONE_IGNORED: Final = 1
"""Exit status of `git check-ignore`."""
_DREAM: Final = "Circadia-Dream"
_UNDOES: Final = "Circadia-Undoes"


@dataclass(frozen=True, kw_only=True, slots=True)
class FileVersions:
    """The contents of a file before and after a dream; None: there was no file."""

    path: PurePosixPath
    old: bytes | None
    new: bytes | None
    mode: int = 0o644


@dataclass(frozen=True, kw_only=True, slots=True)
class DreamCommit:
    commit: str
    id: str
    created_at: datetime
    title: str
    undoes: str | None


class GitRepository:
    def __init__(self, root: Path) -> None:
        """`root` is the memory folder; paths are relative to it."""
        self._root = root
        self._environment = {name: text for name, text in os.environ.items() if name not in _OF_A_CALLER}
        self._environment |= {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}

    @classmethod
    def find(cls, root: Path, paths: Iterable[PurePosixPath]) -> "GitRepository | None":
        """Return the repository, if a commit of `paths` on its branch is possible and wanted.

        It is not where git is missing, where HEAD is no branch with a commit, during a merge, or where a path is
        ignored, or stored through a filter, such as one that encrypts.
        """
        repository = cls(root)
        if repository._ask("rev-parse", "--is-inside-work-tree") != "true":
            return None
        on_branch = repository._ask("symbolic-ref", "-q", "HEAD") and repository._ask(
            "rev-parse", "-q", "--verify", "HEAD"
        )
        if not on_branch or any(repository._ask("rev-parse", "-q", "--verify", name) for name in _UNFINISHED):
            return None
        names = [f"./{path}" for path in paths]
        attributes = repository._ask("check-attr", "filter", "--", *names)
        filtered = attributes is None or any(not line.endswith(": unspecified") for line in attributes.splitlines())
        checked = repository._call(("check-ignore", "--", *names))
        return repository if checked.returncode == _NONE_IGNORED and not filtered else None

    def build_commit(
        self, files: Sequence[FileVersions], changeset_id: str, title: str, undoes: str | None
    ) -> tuple[str, str]:
        """Make a commit on HEAD whose only changes are those of `files`; return HEAD and it. No branch gets it yet.

        Where HEAD has other contents than the dream found, such as edits that are not committed, a commit of those
        comes before it.
        """
        message = f"{title}\n\n{_DREAM}: {changeset_id}\n" + (f"{_UNDOES}: {undoes}\n" if undoes else "")
        steps = (
            (f"State before dream {changeset_id}\n", [(file, file.old) for file in files]),
            (message, [(file, file.new) for file in files]),
        )
        parent = base = self._run("rev-parse", "HEAD")
        with TemporaryDirectory(prefix="circadia-") as folder:
            index = {"GIT_INDEX_FILE": str(Path(folder, "index"))}
            self._run("read-tree", parent, environment=index)
            for text, contents in steps:
                self._run("update-index", "-z", "--index-info", data=self._index_lines(contents), environment=index)
                tree = self._run("write-tree", environment=index)
                if tree != self._run("rev-parse", f"{parent}^{{tree}}"):
                    parent = self._run(
                        "commit-tree", tree, "-p", parent, data=text.encode(), environment=self._identity()
                    )
        return base, parent

    def advance_branch(self, base: str, commit: str, files: Sequence[FileVersions]) -> bool:
        """Move the branch from `base` to a commit of `build_commit`; return False if it has moved since.

        The index first: after a crash in between, the files show as staged changes.
        """
        self._run("update-index", "-z", "--index-info", data=self._index_lines([(file, file.new) for file in files]))
        return self._ask("update-ref", "-m", "circadia: a dream", "HEAD", commit, base) is not None

    def has_commit(self, commit: str) -> bool:
        return self._ask("merge-base", "--is-ancestor", commit, "HEAD") is not None

    def set_branch(self, name: str, commit: str) -> None:
        """Point a branch at a commit; the work tree stays as it is."""
        self._run("update-ref", f"refs/heads/{name}", commit)

    def remove_branch(self, name: str) -> None:
        """Remove a branch, unless a person has it checked out."""
        self._ask("branch", "-D", name)

    def list_dreams(self) -> Iterator[DreamCommit]:
        """Yield the commits of dreams that changed this folder, newest first."""
        parts = ("%H", "%ct", "%s", *(f"%(trailers:key={key},valueonly,separator=%x2C)" for key in (_DREAM, _UNDOES)))
        lines = self._ask("log", "--full-history", f"--grep=^{_DREAM}: ", f"--format={'%x1f'.join(parts)}", "--", ".")
        for line in (lines or "").splitlines():
            commit, seconds, title, changeset_id, undoes = line.split("\x1f")
            if changeset_id:
                yield DreamCommit(
                    commit=commit,
                    id=changeset_id,
                    created_at=datetime.fromtimestamp(int(seconds), UTC),
                    title=title,
                    undoes=undoes or None,
                )

    def list_paths(self, commit: str) -> list[PurePosixPath]:
        """Return the files of this folder that a commit changed."""
        return [PurePosixPath(path) for _, path in self._changes(commit)]

    def read_versions(self, commit: str) -> list[FileVersions]:
        """Return the contents before and after a commit of the files of this folder that it changed."""
        return [
            FileVersions(
                path=PurePosixPath(path),
                old=None if old_mode == "000000" else self._read_blob(old),
                new=None if new_mode == "000000" else self._read_blob(new),
                mode=int(max(old_mode, new_mode)[-3:], 8),
            )
            for (old_mode, new_mode, old, new, _), path in self._changes(commit)
        ]

    def _changes(self, commit: str) -> Iterator[tuple[list[str], str]]:
        fields = iter(
            self._run("diff-tree", "-r", "-z", "--no-commit-id", "--no-renames", "--relative", commit).split("\0")
        )
        for head in fields:
            if head:
                yield head.removeprefix(":").split(" "), next(fields)

    def _index_lines(self, contents: Iterable[tuple[FileVersions, bytes | None]]) -> bytes:
        """Store blobs, byte for byte as they are, and return the lines that put them into an index."""
        prefix = os.fsencode(self._run("rev-parse", "--show-prefix"))
        hash_length = len(self._run("rev-parse", "HEAD"))
        lines = list[bytes]()
        for file, data in contents:
            mode, blob = "0", "0" * hash_length
            if data is not None:
                mode = "100755" if file.mode & 0o100 else "100644"
                blob = self._run("hash-object", "-w", "--stdin", "--no-filters", data=data)
            lines.append(f"{mode} {blob}\t".encode() + prefix + os.fsencode(file.path) + b"\0")
        return b"".join(lines)

    def _read_blob(self, blob: str) -> bytes:
        return self._call(("cat-file", "blob", blob)).stdout

    def _identity(self) -> dict[str, str]:
        """Return the variables of the author, where the repository has none configured."""
        if self._ask("config", "--get", "user.email") and self._ask("config", "--get", "user.name"):
            return {}
        pairs = {"NAME": "Circadia", "EMAIL": "circadia@localhost"}
        names = {f"GIT_{role}_{key}": text for role in ("AUTHOR", "COMMITTER") for key, text in pairs.items()}
        return {name: self._environment.get(name, text) for name, text in names.items()}

    def _ask(self, *command: str) -> str | None:
        """Return what a command prints, or None where it fails."""
        done = self._call(command)
        return os.fsdecode(done.stdout).rstrip("\n") if done.returncode == 0 else None

    def _run(self, *command: str, data: bytes = b"", environment: dict[str, str] | None = None) -> str:
        """Return what a command prints. Raises StorageUnavailable where it fails."""
        done = self._call(command, data, environment)
        if done.returncode != 0:
            reason = done.stderr.decode("utf-8", "replace").strip().splitlines()[:1]
            raise StorageUnavailable(
                f"`git {command[0]}` failed in {str(self._root)!r}: {''.join(reason)}; once git works there, "
                "the next start of a dream finishes the commit"
            )
        return os.fsdecode(done.stdout).rstrip("\n")

    def _call(
        self, command: Sequence[str], data: bytes = b"", environment: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        full = ("git", "-C", str(self._root), *_QUIET, *command)
        variables = self._environment | (environment or {})
        try:
            return subprocess.run(
                full, input=data, env=variables, capture_output=True, timeout=_TIMEOUT_SECONDS, check=False
            )
        except FileNotFoundError:
            return subprocess.CompletedProcess(full, 127, b"", b"git is not installed")
        except subprocess.TimeoutExpired as error:
            raise StorageUnavailable(
                f"`git {command[0]}` did not end in {str(self._root)!r} within {_TIMEOUT_SECONDS} seconds; try again"
            ) from error
