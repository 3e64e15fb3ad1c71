"""Finds the memory folder of a project, and its sessions, where Claude Code keeps them (DREAM-03)."""

import re
from pathlib import Path

from circadia.sleeptime.markdown.memory_folder import MEMORY_NAMES
from circadia.sleeptime.markdown.sessions import find_project_root


def find_memory_folder(path: Path, home: Path) -> Path:
    """Return the memory folder that a person means: that of the project at `path`, if it has one, or `path` itself.

    All worktrees of a git repository share one. Its path has the repository's, with `-` for all but letters and digits.
    """
    if not path.is_dir() or any((path / name).exists() for name in MEMORY_NAMES):
        return path
    name = re.sub(r"[^A-Za-z0-9]", "-", find_project_root(str(path.resolve())))
    folder = home / ".claude" / "projects" / name / "memory"
    return folder if folder.is_dir() else path


def find_transcripts(folder: Path) -> Path | None:
    """Return the folder of the sessions that belong to a memory folder: the one around it, if it has any."""
    around = folder.resolve().parent
    return around if any(around.glob("*.jsonl")) else None
