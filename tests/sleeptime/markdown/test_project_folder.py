"""The memory folder that a person means."""

import os
import re
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


@pytest.mark.spec("DREAM-41")
@pytest.mark.parametrize(("name", "kept"), [("鷺🪶", "---"), ("a" * 150, "a" * 150), ("a" * 250, "a" * 250)])
def test_a_long_path_is_cut_and_a_character_beyond_16_bits_counts_twice(tmp_path: Path, name: str, kept: str) -> None:
    """As Claude Code 2.1 names a project's folder; the hash of a long name is its own."""
    project = tmp_path / name
    project.mkdir()
    git(project, "init", "-q")
    path = re.sub("[^A-Za-z0-9]", "-", f"{tmp_path}/") + kept
    folder = claude_folder(tmp_path, path if len(path) <= 200 else f"{path[:200]}-1x2y3z")
    claude_folder(tmp_path, f"{path[:200]}x-other")
    assert find_memory_folder(project, {"HOME": str(tmp_path)}) == folder


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
