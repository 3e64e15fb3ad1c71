"""The git repository that a memory folder lies in: a commit of the files of each dream, and a branch for a proposal.

A commit is one that a person would make by `git commit`: the filters of the repository and its hooks decide.
"""

import os
import subprocess
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Final

from circadia.errors import Conflict, StorageUnavailable
from circadia.sleeptime.markdown.changeset import Changeset, FileVersions

_TIMEOUT_SECONDS: Final = 120
_OF_A_CALLER: Final = frozenset({
    "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX",
    "GIT_NAMESPACE", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
})  # fmt: skip
"""Variables that name another repository where a git hook started this process."""
_QUIET: Final = ("-c", "core.fsmonitor=false", "-c", "log.showSignature=false")
_UNFINISHED: Final = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD")
"""Of a merge that a person is in the middle of."""
_NONE_IGNORED: Final = 1
"""Exit status of `git check-ignore`."""
_LOCKED: Final = ".lock'"
"""In what git prints while another git works there."""
_OWN_BASELINE: Final = "codex-baseline-version"
"""In Codex's memories git holds no history of people, but what Codex itself compares with, and makes anew."""
_DREAM: Final = "Circadia-Dream"
_UNDOES: Final = "Circadia-Undoes"
_REASON_LINES: Final = 6


class GitRepository:
    def __init__(self, root: Path) -> None:
        """`root` is the memory folder; paths are relative to it."""
        self._root = root
        self._environment = {name: text for name, text in os.environ.items() if name not in _OF_A_CALLER}
        self._environment |= {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}

    @classmethod
    def find(cls, root: Path, paths: Iterable[PurePosixPath]) -> "GitRepository | None":
        """Return the repository, if a commit of `paths` on its branch is possible and wanted.

        It is not where git is missing, where HEAD is no branch with a commit, during a merge, where a path is ignored,
        or in Codex's own folder.
        """
        repository = cls(root)
        if repository._ask("rev-parse", "--is-inside-work-tree") != "true":
            return None
        on_branch = repository._ask("symbolic-ref", "-q", "HEAD") and repository._ask(
            "rev-parse", "-q", "--verify", "HEAD"
        )
        if not on_branch or any(repository._ask("rev-parse", "-q", "--verify", name) for name in _UNFINISHED):
            return None
        if (root / (repository._ask("rev-parse", "--git-path", _OWN_BASELINE) or "")).is_file():
            return None
        checked = repository._call(("check-ignore", "--", *(f"./{path}" for path in paths)))
        return repository if checked.returncode == _NONE_IGNORED else None

    def find_common_folder(self) -> Path | None:
        """Return the folder that the worktrees of the repository share, None where there is no repository."""
        answer = self._ask("rev-parse", "--path-format=absolute", "--git-common-dir")
        return None if answer is None else Path(answer)

    def commit_state(self, paths: Collection[PurePosixPath], changeset_id: str) -> None:
        """Commit what a person has changed in these files and not committed. Raises Conflict, StorageUnavailable."""
        changed = [path for path in paths if self._ask("status", "--porcelain", "-uno", "--", *_names([path]))]
        if changed:
            self._commit(changed, f"State before dream {changeset_id}\n")

    def commit(self, paths: Collection[PurePosixPath], changeset: Changeset) -> str | None:
        """Commit these files as they are, and nothing else; return the commit, None if a hook has made it no change.

        Raises:
            Conflict: git or a hook refuses it. StorageUnavailable: another git works there.
        """
        present = [path for path in paths if (self._root / path).exists()]
        if present:
            self._run("add", "--intent-to-add", "--", *_names(present))
        if self._ask("status", "--porcelain", "-uno", "--", *_names(paths)):
            trailers = f"{_DREAM}: {changeset.id}\n"
            trailers += f"{_UNDOES}: {changeset.undoes}\n" if changeset.undoes else ""
            self._commit(paths, f"{changeset.title}\n\n{trailers}")
        return self._ask("log", "-1", "--format=%H", f"--grep=^{_DREAM}: {changeset.id}$") or None

    def _commit(self, paths: Collection[PurePosixPath], message: str) -> None:
        command = ("commit", "--quiet", "--only", "-F", "-", "--", *_names(paths))
        done = self._call(command, message.encode(), self._identity())
        said = (done.stderr + done.stdout).decode("utf-8", "replace")
        if done.returncode != 0:
            self._ask("reset", "--quiet", "--", *_names(paths))  # what `add` has announced
            if _LOCKED in said:
                raise self._failure("commit", said)
            lines = [line.strip() for line in said.splitlines() if line.strip()]
            raise Conflict(
                f"the repository refuses the commit: {'; '.join(lines[:_REASON_LINES]) or 'no reason given'}"
            )

    def show_on_branch(self, name: str, files: Sequence[FileVersions], message: str) -> None:
        """Point a branch at a commit on HEAD whose only changes are those of `files`; the work tree stays as it is."""
        parent = self._run("rev-parse", "HEAD")
        with TemporaryDirectory(prefix="circadia-") as folder:
            index = {"GIT_INDEX_FILE": str(Path(folder, "index"))}
            self._run("read-tree", parent, environment=index)
            self._run("update-index", "-z", "--index-info", data=self._index_lines(files), environment=index)
            tree = self._run("write-tree", environment=index)
        commit = self._run("commit-tree", tree, "-p", parent, data=message.encode(), environment=self._identity())
        self._run("-c", "core.hooksPath=/dev/null", "update-ref", f"refs/heads/{name}", commit)

    def remove_branch(self, name: str) -> None:
        """Remove a branch, unless a person has it checked out."""
        self._ask("-c", "core.hooksPath=/dev/null", "branch", "-D", name)

    def _index_lines(self, files: Iterable[FileVersions]) -> bytes:
        """Store the new contents through the repository's filters, and return the lines that put them into an index."""
        prefix = os.fsencode(self._run("rev-parse", "--show-prefix"))
        lines = list[bytes]()
        for file in files:
            mode, blob = "0", "0" * len(self._run("rev-parse", "HEAD"))
            if file.new is not None:
                mode = "100755" if file.mode & 0o100 else "100644"
                blob = self._run("hash-object", "-w", "--stdin", "--path", str(file.path), data=file.new)
            lines.append(f"{mode} {blob}\t".encode() + prefix + os.fsencode(file.path) + b"\0")
        return b"".join(lines)

    def check_filters(self, paths: Collection[PurePosixPath]) -> None:
        """Raise StorageUnavailable: a filter that the repository requires for some of these files fails."""
        told = self._run("check-attr", "-z", "filter", "--", *map(str, paths)).split("\0")
        for name in dict(zip(told[2::3], told[::3], strict=False)).values():
            self._run("hash-object", "--stdin", "--path", name)

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
            raise self._failure(command[0], done.stderr.decode("utf-8", "replace"))
        return os.fsdecode(done.stdout).rstrip("\n")

    def _failure(self, command: str, said: str) -> StorageUnavailable:
        lines = said.strip().splitlines()
        reason = next((line for line in lines if line.startswith("fatal:")), "".join(lines[:1]))
        return StorageUnavailable(
            f"`git {command}` failed in {str(self._root)!r}: {reason}; once git works there, the next start of a dream "
            "goes on"
        )

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


def _names(paths: Iterable[PurePosixPath]) -> Sequence[str]:
    return [f":(literal){path}" for path in paths]
