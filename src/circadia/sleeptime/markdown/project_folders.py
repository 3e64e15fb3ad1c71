"""Where Claude Code keeps a project's memory folder and sessions: one folder for all worktrees (DREAM-41)."""

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

from circadia.errors import InvalidRequest
from circadia.sleeptime.markdown.anchored_folder import OWN_FOLDER
from circadia.sleeptime.markdown.memory_folder import MEMORY_NAMES, TREE

_GIT_SECONDS: Final = 10.0
_HEAD_LINES: Final = 50
"""Lines of a transcript in which the folder of its session is looked for."""


def find_memory_folder(path: Path, environment: Mapping[str, str], *, repository: bool = False) -> Path:
    """Return the memory folder that a person means: that of the project at `path`, or `path` itself if it is one.

    Its name is the repository's path, with `-` for all but letters and digits. A repository is a memory folder itself
    only if it has an index or Letta's tree, or the person says so.

    Raises:
        InvalidRequest: `path` is a project, and Claude Code keeps no memory folder for it.
    """
    names = (*MEMORY_NAMES, TREE, OWN_FOLDER)
    if repository or not path.is_dir() or any((path / name).exists() for name in names):
        return path
    root = find_project_root(str(path.resolve()))
    home = Path(environment.get("HOME") or Path.home())
    around = Path(environment.get("CLAUDE_CONFIG_DIR") or home / ".claude", "projects", _folder_name(root))
    if (around / "memory").is_dir():
        return around / "memory"
    if not (around.is_dir() or root != str(path.resolve()) or (path / ".git").exists()):
        return path
    raise InvalidRequest(
        f"{str(path)!r} belongs to the project {root!r}, and Claude Code keeps no memory for it: there is no "
        f"{str(around / 'memory')!r}; name the memory folder itself, or add --repository if all Markdown files of "
        f"{str(path)!r} are memory"
    )


def find_transcripts(folder: Path) -> Path | None:
    """Return the folder of the sessions that belong to a memory folder: the one around it, if it has any."""
    around = folder.resolve().parent
    return around if any(around.glob("*.jsonl")) else None


def find_worktrees(folder: Path) -> Iterator[Path]:
    """Yield the folders with the sessions of other worktrees of the project whose memory folder this is."""
    around = folder.resolve().parent
    if folder.name != "memory" or around.parent.name != "projects":
        return
    for other in sorted(around.parent.iterdir()):
        started_in = _find_start(other) if other != around else None
        if started_in is not None and _folder_name(find_project_root(started_in)) == around.name:
            yield other


def _find_start(folder: Path) -> str | None:
    """Return the folder in which the agent started, by the first transcript of a folder that says so."""
    for path in sorted(folder.glob("*.jsonl")):
        with suppress(OSError), path.open("rb") as file:
            for line in islice(file, _HEAD_LINES):
                with suppress(ValueError, AttributeError):
                    if isinstance(started_in := json.loads(line).get("cwd"), str):
                        return started_in
    return None


def _folder_name(root: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "-", root)


def find_project_root(folder: str) -> str:
    """Return the root of the git repository that a folder belongs to, the same for its worktrees; else the folder.

    For a folder that is gone, such as a removed worktree, that of the folder around it.
    """
    path = Path(folder)
    if "\0" in folder or not path.is_absolute():
        return folder
    existing = next((parent for parent in (path, *path.parents) if parent.is_dir()), path)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        answer = subprocess.run(
            ["git", "-C", str(existing), "rev-parse", "--path-format=absolute", "--git-common-dir"],
            capture_output=True, timeout=_GIT_SECONDS, env=environment, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return folder
    repository = Path(os.fsdecode(answer.stdout.rstrip(b"\n")))
    return str(repository.parent if repository.name == ".git" else repository)
