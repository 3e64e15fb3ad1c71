"""A publication that is killed at any line leaves each file old or new, and the next start finishes it."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from circadia.sleeptime.markdown.publication import list_history, publish, recover
from tests.sleeptime.markdown.folder_changes import read_all, stage_now, write_all
from tests.sleeptime.markdown.killed_publisher import NEW, OLD

pytestmark = pytest.mark.spec("DREAM-21")

PUBLISHED = {name: data for name, data in NEW.items() if data is not None}


@contextmanager
def killing_program(root: Path, disk: str = "local") -> Generator[Callable[[int], str]]:
    """Yield a function that publishes the dream `one`, and kills the publication at a line."""
    command = [sys.executable, "-m", "tests.sleeptime.markdown.killed_publisher", str(root), "one", disk]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def kill_at(line: int) -> str:
            stdin.write(f"{line}\n")
            stdin.flush()
            return stdout.readline().strip()

        yield kill_at
        stdin.close()
        assert process.wait(60) == 0


def assert_each_file_is_old_or_new(root: Path) -> None:
    files = read_all(root)
    assert set(files) <= {*OLD, *NEW}
    for name in {*OLD, *NEW}:
        assert files.get(name) in (OLD.get(name), NEW.get(name)), name


def kill_everywhere(root: Path, stride: int, disk: str) -> int:
    """Kill at each `stride`th line; return how many kills there were."""
    with killing_program(root, disk) as kill_at:
        for kills in range(10_000):
            shutil.rmtree(root, ignore_errors=True)
            root.mkdir()
            write_all(root, OLD)
            ended = kill_at(kills * stride)
            if ended != "killed":
                assert ended == "ended 0"
                assert read_all(root) == PUBLISHED
                return kills
            assert_each_file_is_old_or_new(root)
            recover(root)
            assert read_all(root) in (OLD, PUBLISHED)  # old: it died before its journal said that it began
            if not list_history(root):
                stage_now(root, "one", NEW)
            if read_all(root) == OLD:
                assert not publish(root, "one").problems
            assert read_all(root) == PUBLISHED
            assert recover(root) == []
            assert [(entry.id, len(entry.published)) for entry in list_history(root)] == [("one", 4)]
    raise AssertionError("it never ended")


@pytest.mark.parametrize("disk", ["local", "network"])
def test_a_kill_at_any_instant_leaves_each_file_old_or_new_and_the_next_start_finishes(
    quick_path: Path, disk: str
) -> None:
    assert kill_everywhere(quick_path / "memory", 83, disk) > 15


@pytest.mark.slow
@pytest.mark.parametrize("disk", ["local", "network"])
def test_a_kill_at_each_single_line_leaves_each_file_old_or_new_and_the_next_start_finishes(
    quick_path: Path, disk: str
) -> None:
    assert kill_everywhere(quick_path / "memory", 1, disk) > 1000


def test_a_recovery_that_is_killed_over_and_over_ends_all_the_same(quick_path: Path) -> None:
    """Each attempt gets 25 lines further than the one before."""
    write_all(quick_path, OLD)
    stage_now(quick_path, "one", NEW)
    with killing_program(quick_path) as kill_at:
        attempts = 0
        while kill_at(attempts * 25) == "killed":
            assert_each_file_is_old_or_new(quick_path)
            attempts += 1
    assert attempts > 10
    assert read_all(quick_path) == PUBLISHED


def test_a_staging_that_was_cut_off_leaves_nothing_behind(quick_path: Path) -> None:
    write_all(quick_path, OLD)
    stage_now(quick_path, "one", NEW)
    (quick_path / ".circadia" / "dreams" / "one" / "manifest.json").unlink()
    assert recover(quick_path) == []
    assert list_history(quick_path) == []
    assert list((quick_path / ".circadia" / "dreams").iterdir()) == []
    assert read_all(quick_path) == OLD
