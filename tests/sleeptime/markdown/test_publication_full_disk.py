"""A full disk leaves each file as it was, and the error says so; with room again, the dream goes on."""

import os
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from circadia.errors import StorageUnavailable
from circadia.sleeptime.markdown.publication import list_history, publish, recover
from tests.full_disk import no_room
from tests.sleeptime.markdown.folder_changes import publish_now, read_all, stage_now, write_all

pytestmark = pytest.mark.spec("DREAM-32")

OLD = {"MEMORY.md": b"- a\n" * 100, "a.md": b"old " * 1000}
NEW: dict[str, bytes | None] = {"a.md": b"new " * 5000, "sub/b.md": b"new " * 5000}


@pytest.fixture
def small_disk(tmp_path: Path) -> Generator[Path]:
    """Yield a disk of 64 KiB, or a folder where only root may mount one."""
    mounted = (
        os.geteuid() == 0
        and subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", tmp_path]).returncode == 0
    )
    yield tmp_path
    if mounted:
        subprocess.run(["umount", "-l", tmp_path], check=True)


def test_a_disk_that_is_full_at_staging_leaves_everything_old_and_says_so(tmp_path: Path) -> None:
    write_all(tmp_path, OLD)
    with no_room(4096), pytest.raises(StorageUnavailable, match="the disk is full; no file of the folder was changed"):
        stage_now(tmp_path, "one", NEW)
    assert read_all(tmp_path) == OLD
    assert list_history(tmp_path) == []
    assert not publish_now(tmp_path, "one", NEW).problems


def test_a_disk_that_is_full_at_publishing_leaves_everything_old_and_says_so(tmp_path: Path) -> None:
    write_all(tmp_path, OLD)
    stage_now(tmp_path, "one", NEW)
    with no_room(100), pytest.raises(StorageUnavailable, match="the disk is full; no file of the folder was changed"):
        publish(tmp_path, "one")
    assert read_all(tmp_path) == OLD
    assert recover(tmp_path) == []
    assert read_all(tmp_path) == OLD
    assert not publish(tmp_path, "one").problems


def fill(disk: Path) -> None:
    """Write until not a byte more fits."""
    with (disk / "filler").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 512)
        except OSError:
            return


def test_a_small_disk_that_runs_full_leaves_everything_old_and_takes_the_dream_once_there_is_room(
    small_disk: Path,
) -> None:
    root = small_disk / "memory"
    write_all(root, OLD)
    stage_now(root, "one", {"a.md": b"new", "sub/b.md": b"new"})
    if not os.path.ismount(small_disk):
        return
    fill(small_disk)
    with pytest.raises(StorageUnavailable, match="the disk is full; no file of the folder was changed"):
        stage_now(root, "two", NEW)
    with pytest.raises(StorageUnavailable, match="the disk is full; no file of the folder was changed"):
        publish(root, "one")
    assert read_all(root) == OLD
    (small_disk / "filler").unlink()
    assert recover(root) == []
    assert [entry.id for entry in list_history(root)] == ["one"]
    assert not publish(root, "one").problems
