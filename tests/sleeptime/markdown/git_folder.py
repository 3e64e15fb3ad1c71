"""A memory folder in a git repository, for tests."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.sleeptime.markdown.folder_changes import write_all


def git(folder: Path, *command: str) -> str:
    """Run git and return what it prints."""
    done = subprocess.run(["git", "-C", folder, *command], capture_output=True, check=True)
    return done.stdout.decode().rstrip("\n")


def make_repository(
    top: Path, files: Mapping[str, bytes], *, name: str = "Ada", email: str = "ada@example.org"
) -> None:
    """Make a repository with one commit of the files; without `name`, it has no identity."""
    write_all(top, files)
    git(top, "init", "-q", "-b", "main")
    git(top, "add", ".")
    git(top, "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "-qm", "first")
    if name:
        git(top, "config", "user.name", name)
        git(top, "config", "user.email", email)
