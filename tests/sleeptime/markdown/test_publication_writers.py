"""A coding agent reads and edits the folder while dreams publish into it: it loses no edit and finds whole files."""

import os
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from circadia.sleeptime.markdown import anchored_folder, changeset
from circadia.sleeptime.markdown.publication import FileOutcome, PublicationResult, publish, recover
from tests.sleeptime.markdown.folder_changes import publish_now, stage_now, write_all

pytestmark = pytest.mark.spec("DREAM-21")

FILES = (anchored_folder.__file__, changeset.__file__)
SWAPS = {"_swap", "_take_out", "_make_file", "_refuse", "exchange", "_exchange_atomically", "move_to_free_name"}


@contextmanager
def busy_writer(path: Path, how: str, added: list[int]) -> Generator[None]:
    """Let a process edit the file; append to `added` how many lines it has written."""
    command = [sys.executable, "-m", "tests.sleeptime.markdown.busy_writer", str(path), how]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writes\n"
        yield
        added.append(int(process.communicate(timeout=60)[0]))


@pytest.mark.parametrize("how", ["replace", "append"])
def test_a_writer_that_edits_all_the_time_loses_no_edit_and_finds_whole_files(tmp_path: Path, how: str) -> None:
    path = tmp_path / "topic.md"
    path.write_bytes(b"- first\n")
    added, results = list[int](), list[PublicationResult]()
    with busy_writer(path, how, added):
        for number in count():
            old = path.read_bytes()
            stage_now(tmp_path, f"d{number}", {"topic.md": f"- dream {number}\n".encode() + old}, {"topic.md": old})
            results.append(publish(tmp_path, f"d{number}"))
            outcomes = {outcome for result in results for outcome in result.outcomes.values()}
            if number >= 40 and outcomes >= {FileOutcome.PUBLISHED, FileOutcome.CHANGED_MEANWHILE}:
                break
    results += recover(tmp_path)
    lines = set(path.read_bytes().splitlines())
    lines |= {line for result in results for rescued in result.rescued for line in rescued.read_bytes().splitlines()}
    assert [number for number in range(added[0]) if f"- edit {number}".encode() not in lines] == []


def publish_with_edits(root: Path, edits: dict[int, Callable[[], None]]) -> tuple[PublicationResult, int]:
    """Publish, and make an edit before each of these lines of the code that swaps; return how many lines it ran."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if frame.f_code.co_filename not in FILES or frame.f_code.co_name not in SWAPS:
            return trace if event == "call" else None
        if event == "line":
            if count in edits:
                edits[count]()
            count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        result = publish(root, "one")
    finally:
        sys.settrace(before)
    return result, count


def remaining(root: Path, result: PublicationResult) -> bytes:
    path = root / "topic.md"
    return b"".join(each.read_bytes() for each in (path, *result.rescued) if each.exists())


@pytest.fixture(
    params=[(b"- old\n", b"- new\n"), (None, b"- new\n"), (b"- old\n", None)], ids=["swap", "make", "take out"]
)
def change(request: pytest.FixtureRequest) -> tuple[bytes | None, bytes | None]:
    return request.param


def prepare(parent: Path, name: str, change: tuple[bytes | None, bytes | None]) -> Path:
    root = parent / name
    root.mkdir()
    if change[0] is not None:
        write_all(root, {"topic.md": change[0]})
    stage_now(root, "one", {"topic.md": change[1]})
    return root


def write_anew(path: Path, text: bytes) -> None:
    draft = path.with_suffix(".tmp")
    draft.write_bytes(text)
    os.replace(draft, path)


def add_in_place(path: Path, text: bytes) -> None:
    with path.open("ab", buffering=0) as file:
        file.write(text)


@pytest.mark.parametrize("how", ["anew", "append"])
def test_an_edit_at_each_instant_of_a_swap_is_kept(
    quick_path: Path, change: tuple[bytes | None, bytes | None], how: str
) -> None:
    lines, line = 1, 0
    outcomes = set[FileOutcome]()
    while line < lines:
        root = prepare(quick_path, str(line), change)
        edit = partial(write_anew if how == "anew" else add_in_place, root / "topic.md", b"- edit\n")
        result, lines = publish_with_edits(root, {line: edit})
        assert b"- edit\n" in remaining(root, result), line
        assert result.problems
        outcomes |= set(result.outcomes.values())
        line += 1
    assert lines > 5
    assert outcomes >= {FileOutcome.CHANGED_MEANWHILE, FileOutcome.CHANGED_AFTERWARDS}


def test_two_edits_around_a_swap_are_both_kept(quick_path: Path) -> None:
    outcomes = set[FileOutcome]()
    lines = publish_with_edits(prepare(quick_path, "count", (b"- old\n", b"- new\n")), {})[1]
    for first in range(lines):
        for second in (first + 1, first + 2, first + 5):
            root = prepare(quick_path, f"{first}-{second}", (b"- old\n", b"- new\n"))
            path = root / "topic.md"
            edits = {first: partial(write_anew, path, b"- one\n"), second: partial(add_in_place, path, b"- two\n")}
            result, ran = publish_with_edits(root, edits)
            kept = remaining(root, result)
            assert b"- one\n" in kept
            assert b"- two\n" in kept or second >= ran
            outcomes |= set(result.outcomes.values())
    assert FileOutcome.EDITED_TWICE in outcomes


def test_a_file_that_is_removed_at_any_instant_of_a_swap_stays_removed(quick_path: Path) -> None:
    lines, line = 1, 0
    while line < lines:
        root = prepare(quick_path, str(line), (b"- old\n", b"- new\n"))
        _, lines = publish_with_edits(root, {line: (root / "topic.md").unlink})
        assert not (root / "topic.md").exists()
        line += 1


def test_an_edit_of_a_program_that_had_the_file_open_all_the_time_is_found_at_the_next_start(quick_path: Path) -> None:
    write_all(quick_path, {"topic.md": b"- old\n"})
    with (quick_path / "topic.md").open("ab", buffering=0) as file:
        assert not publish_now(quick_path, "one", {"topic.md": b"- new\n"}).problems
        file.write(b"- late\n")
    (result,) = recover(quick_path)
    assert [path.read_bytes() for path in result.rescued] == [b"- old\n- late\n"]
    assert recover(quick_path) == []
