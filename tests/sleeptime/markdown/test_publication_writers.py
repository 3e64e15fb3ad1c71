"""A coding agent reads and edits the folder while dreams publish into it: it loses no edit and finds whole files."""

import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from circadia.sleeptime.markdown.publication import FileOutcome, PublicationResult
from tests.sleeptime.markdown.folder_changes import publish_now, write_all


@contextmanager
def busy_writer(path: Path, how: str, added: list[int]) -> Generator[None]:
    """Let a process edit the file; append to `added` how many lines it has written."""
    command = [sys.executable, "-m", "tests.sleeptime.markdown.busy_writer", str(path), how]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writes\n"
        yield
        added.append(int(process.communicate(timeout=60)[0]))


def dream_beside(root: Path, dreams: int) -> tuple[list[PublicationResult], bytes]:
    """Publish dreams that put a line before what the file holds; return the results, and all kept contents."""
    path = root / "topic.md"
    results = list[PublicationResult]()
    for number in range(dreams):
        results.append(
            publish_now(root, f"d{number}", {"topic.md": f"- dream {number}\n".encode() + path.read_bytes()})
        )
    return results, b""


@pytest.mark.parametrize("how", ["replace", "append"])
def test_a_writer_that_edits_all_the_time_loses_no_edit(tmp_path: Path, how: str) -> None:
    write_all(tmp_path, {"topic.md": b""})
    added = list[int]()
    with busy_writer(tmp_path / "topic.md", how, added):
        results, _ = dream_beside(tmp_path, 150)
    outcomes = [outcome for result in results for outcome in result.outcomes.values()]
    kept = (tmp_path / "topic.md").read_bytes() + b"".join(path.read_bytes() for r in results for path in r.rescued)
    lines = set(kept.splitlines())
    print({each.value: outcomes.count(each) for each in FileOutcome}, sum(len(r.rescued) for r in results), added)
    assert [number for number in range(added[0]) if f"- edit {number}".encode() not in lines] == []
    assert len(set(outcomes)) > 1
