"""The memory folder that a person means."""

import os
import subprocess
from pathlib import Path

import pytest

from circadia.sleeptime.markdown.sessions import find_memory_folder, find_transcripts

pytestmark = pytest.mark.spec("DREAM-03")


def claude_folder(home: Path, name: str) -> Path:
    folder = home / ".claude" / "projects" / name / "memory"
    folder.mkdir(parents=True)
    return folder


def git(folder: Path, *words: str) -> None:
    who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True, env={**os.environ, **who})


def test_a_project_means_the_folder_that_claude_code_keeps_for_it_as_do_its_worktrees(tmp_path: Path) -> None:
    project = tmp_path / "src" / "my_app.v2"
    (project / "lib").mkdir(parents=True)
    git(project, "init", "-q")
    git(project, "commit", "-q", "--allow-empty", "-m", "first")
    git(project, "worktree", "add", "-q", str(tmp_path / "tree"))
    folder = claude_folder(tmp_path, str(project).replace("/", "-").replace("_", "-").replace(".", "-"))
    for path in (project, project / "lib", tmp_path / "tree"):
        assert find_memory_folder(path, {"HOME": str(tmp_path)}) == folder


def test_a_memory_folder_and_what_has_none_mean_themselves(tmp_path: Path) -> None:
    folder = claude_folder(tmp_path, "app")
    (folder / "MEMORY.md").write_text("# Memory\n")
    other = tmp_path / "other"
    other.mkdir()
    for path in (folder, other, tmp_path / "missing"):
        assert find_memory_folder(path, {"HOME": str(tmp_path)}) == path


def test_the_sessions_are_those_around_the_folder(tmp_path: Path) -> None:
    folder = claude_folder(tmp_path, "app")
    assert find_transcripts(folder) is None
    (folder.parent / "s1.jsonl").write_text("")
    assert find_transcripts(folder) == folder.parent
