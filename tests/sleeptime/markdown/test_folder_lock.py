"""One dreamer per folder, over processes; a dead or silent one is replaced by exactly one other."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from circadia.clock import SystemClock
from circadia.errors import Conflict, InvalidRequest, StorageUnavailable
from circadia.sleeptime.markdown import folder_lock
from circadia.sleeptime.markdown.folder_lock import FolderLock, lock_memory_folder
from tests.full_disk import no_room

pytestmark = pytest.mark.spec("DREAM-02")

Dreamer = subprocess.Popen[str]
TAKING = {"_take_number", "_refuse_living_holder"}


@pytest.fixture
def start(tmp_path: Path) -> Generator[Callable[..., Dreamer]]:
    """Start a dreamer, which takes the lock once it is told to."""
    started = list[Dreamer]()

    def new(beat_seconds: float = 60) -> Dreamer:
        command = [sys.executable, "-m", "tests.sleeptime.markdown.dreamer", str(tmp_path), str(beat_seconds)]
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield new
    for process in started:
        process.kill()
        process.communicate(timeout=60)


def go(process: Dreamer) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def answer(process: Dreamer) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def take(process: Dreamer) -> str:
    go(process)
    return answer(process)


def lock_file(root: Path) -> Path:
    return max((root / ".circadia" / "lock").iterdir())


def fall_silent(root: Path, seconds: float, host: str | None = None) -> None:
    """Let the holder's last beat be so old, and the holder be on another host."""
    path = lock_file(root)
    if host is not None:
        text = path.read_text()
        path.write_text(text.replace(os.uname().nodename, host))
    then = time.time() - seconds
    os.utime(path, (then, then))


def test_a_second_dreamer_is_told_who_holds_the_folder_and_since_when(
    tmp_path: Path, start: Callable[..., Dreamer]
) -> None:
    first, second, third = start(), start(), start()
    assert take(first) == "holds"
    refusal = take(second)
    assert f"process {first.pid} on {os.uname().nodename!r}, since 20" in refusal
    assert "wait until it ends, or stop it" in refusal
    go(first)
    assert first.wait(60) == 0
    assert take(third) == "holds"


def test_a_killed_dreamer_is_replaced_at_once(tmp_path: Path, start: Callable[..., Dreamer]) -> None:
    first, second = start(), start()
    assert take(first) == "holds"
    first.kill()
    first.wait(60)
    assert take(second) == "holds"


def test_of_many_that_take_over_at_once_exactly_one_holds_the_folder(
    tmp_path: Path, start: Callable[..., Dreamer]
) -> None:
    first = start()
    assert take(first) == "holds"
    first.kill()
    first.wait(60)
    others = [start() for _ in range(6)]
    for each in others:
        go(each)
    answers = [answer(each) for each in others]
    assert answers.count("holds") == 1
    winner = others[answers.index("holds")]
    assert all(f"process {winner.pid} " in text for text in answers if text != "holds")


@pytest.mark.parametrize(("silent", "holds"), [(59 * 60, False), (61 * 60, True)])
def test_a_dreamer_on_another_machine_is_replaced_after_60_minutes_without_a_beat(
    tmp_path: Path, start: Callable[..., Dreamer], silent: float, holds: bool
) -> None:
    first, second = start(), start()
    assert take(first) == "holds"
    first.kill()
    first.wait(60)
    fall_silent(tmp_path, silent, host="elsewhere")
    text = take(second)
    assert (text == "holds") is holds
    assert holds or "on 'elsewhere'" in text


def test_a_folder_that_a_dreamer_on_another_machine_has_left_is_free_at_once(tmp_path: Path) -> None:
    with lock_memory_folder(tmp_path, SystemClock()):
        fall_silent(tmp_path, 0, host="elsewhere")
        with pytest.raises(Conflict, match="on 'elsewhere'"), lock_memory_folder(tmp_path, SystemClock()):
            pass
    with lock_memory_folder(tmp_path, SystemClock()):
        pass


def test_who_lost_the_folder_in_an_hour_of_silence_may_not_publish(tmp_path: Path) -> None:
    with lock_memory_folder(tmp_path, SystemClock()) as first:
        first.confirm()
        fall_silent(tmp_path, 61 * 60)
        with lock_memory_folder(tmp_path, SystemClock()) as second:
            second.confirm()
            with pytest.raises(Conflict, match="another dreamer has taken over"):
                first.confirm()
        with pytest.raises(Conflict, match="another dreamer has taken over"):
            first.confirm()
    with lock_memory_folder(tmp_path, SystemClock()) as third:
        third.confirm()


def test_a_holder_renews_its_beat(tmp_path: Path, start: Callable[..., Dreamer]) -> None:
    first, second = start(0.02), start()
    assert take(first) == "holds"
    fall_silent(tmp_path, 61 * 60)
    ends = time.monotonic() + 60
    while lock_file(tmp_path).stat().st_mtime < time.time() - 3600:
        assert time.monotonic() < ends
    assert take(second) != "holds"


def test_a_lock_that_cannot_be_read_counts_for_60_minutes(tmp_path: Path) -> None:
    with lock_memory_folder(tmp_path, SystemClock()):
        lock_file(tmp_path).write_bytes(b"\xff{")
        with pytest.raises(Conflict, match="another dreamer dreams over"), lock_memory_folder(tmp_path, SystemClock()):
            pass
        fall_silent(tmp_path, 61 * 60)
        with lock_memory_folder(tmp_path, SystemClock()):
            pass


def test_a_full_disk_and_a_missing_folder_are_told(tmp_path: Path) -> None:
    with no_room(0), pytest.raises(StorageUnavailable, match="the disk is full; no dream was started"):
        with lock_memory_folder(tmp_path, SystemClock()):
            pass
    with pytest.raises(InvalidRequest, match="no folder"), lock_memory_folder(tmp_path / "nowhere", SystemClock()):
        pass
    with lock_memory_folder(tmp_path, SystemClock()):
        pass


def take_lock_with_others_in_between(root: Path, line: int, others: int) -> tuple[int, int]:
    """Take a stale lock. Before a line of the code that takes it, `others` take it one after the other.

    All but the last of them leave it at once. Return how many hold it in the end, and how many lines the code has.
    """
    count = 0
    with ExitStack() as held:
        holders = list[FolderLock]()

        def take(stack: ExitStack) -> None:
            with suppress(Conflict):
                holders.append(stack.enter_context(lock_memory_folder(root, SystemClock())))

        def trace(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal count
            if frame.f_code.co_filename != folder_lock.__file__ or frame.f_code.co_name not in TAKING:
                return trace if event == "call" else None
            if event == "line":
                if count == line:
                    sys.settrace(None)
                    for _ in range(others - 1):
                        with ExitStack() as briefly:
                            take(briefly)
                        holders.clear()
                    take(held)
                    sys.settrace(trace)
                count += 1
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            take(held)
        finally:
            sys.settrace(before)
        return len(holders), count


@pytest.mark.parametrize("others", [1, 2])
def test_of_takers_in_any_order_of_their_steps_exactly_one_holds_the_folder(tmp_path: Path, others: int) -> None:
    lines, line = 1, 0
    while line < lines:
        root = tmp_path / str(line)
        root.mkdir()
        with lock_memory_folder(root, SystemClock()):
            pass
        lock_file(root).write_bytes(b"{}")
        fall_silent(root, 61 * 60)
        holders, lines = take_lock_with_others_in_between(root, line, others)
        assert holders == 1, line
        line += 1
    assert lines > 10
