"""Watches an event loop from a thread beside it, and keeps the stack of a turn that takes too long (LARGE-04).

What counts is the processor time of the loop's thread in one callback, without garbage collection. On a machine with
more to do than it has processors the limit is twice as high: threads share caches and cores there and lose some of them
to other guests of the host, and even a look-up by key has taken 50 ms. The fixtures watch every server that a test
starts, in its own process or in the test's.
"""

import asyncio
import gc
import os
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate, repeat
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from tests.recording.module_hook import run_after_import

FILE = "CIRCADIA_LOOP_WATCH"
"""Environment variable with the file to which a program appends what it finds."""
LIMIT_SECONDS = 0.05
READY = ".ready"
"""Suffix of the file that says that the program is ready; what it does before does not count."""
WARM_UP_SECONDS = 1.0
"""After that: it loads what is used first."""
_LOOK_SECONDS = 0.01
_LOOPS = ("asyncio/runners.py", "asyncio/base_events.py", "asyncio/events.py", "cli/machine/serve.py")
"""Below their frames is what a loop runs."""


class LoopWatch:
    """Watches the loop of the thread that makes it until `stop`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, tell: Callable[[float, str], None]) -> None:
        """`tell` takes the seconds and the stack of a callback."""
        self._loop = loop
        self._tell = tell
        self._thread = threading.get_ident()
        self._clock = time.pthread_getcpuclockid(self._thread)
        self._turn = 0
        self._is_collecting = False
        self._collected_seconds = self._collection_began = 0.0
        self._stopped = threading.Event()
        gc.callbacks.append(self._on_collection)
        self._watcher = threading.Thread(target=self._watch, name="loop-watch", daemon=True)
        self._watcher.start()

    def stop(self) -> None:
        self._stopped.set()
        self._watcher.join()
        gc.callbacks.remove(self._on_collection)

    def _watch(self) -> None:
        begun: tuple[FrameType | None, int] = (None, 0)
        since = last = 0.0
        while not self._stopped.wait(_LOOK_SECONDS):
            now = time.clock_gettime(self._clock)
            if now == last:
                continue  # it waits
            last = now
            if self._is_collecting:
                continue
            now -= self._collected_seconds
            frames = _stack(self._thread)
            current = _find_callback(frames), self._turn
            if current[0] is None or current != begun:
                begun, since = current, now
                try:
                    self._loop.call_soon_threadsafe(self._count_turn)
                except RuntimeError:  # the loop has ended
                    return
            elif now - since > _limit():
                lines = traceback.StackSummary.extract((frame, frame.f_lineno) for frame in reversed(frames))
                self._tell(now - since, "".join(lines.format()))
                begun = (None, 0)
            del frames, current

    def _count_turn(self) -> None:
        self._turn += 1

    def _on_collection(self, phase: str, _facts: Mapping[str, object]) -> None:
        """What a callback takes in a collection of garbage does not count."""
        if threading.get_ident() == self._thread:
            now = time.clock_gettime(self._clock)
            if phase == "start":
                self._collection_began = now
            else:
                self._collected_seconds += now - self._collection_began
            self._is_collecting = phase == "start"


def _limit() -> float:
    is_busy = os.getloadavg()[0] > (os.cpu_count() or 1)
    return 2 * LIMIT_SECONDS if is_busy else LIMIT_SECONDS


def _stack(thread: int) -> list[FrameType]:
    """Return the frames of a thread, the innermost first.

    C code takes all of them in one step of this thread. In a walk by Python code the other thread could go on between
    two frames; when it switches greenlets, as SQLAlchemy does, the next frame is none any more, and Python crashes.
    """
    frames: deque[Any] = deque()
    collects = gc.isenabled()
    gc.disable()  # its callbacks are Python code
    try:
        frame = sys._current_frames().get(thread)  # pyright: ignore[reportPrivateUsage] # documented
        frames.extend(accumulate(repeat("f_back"), getattr, initial=frame))
    except AttributeError:  # the last is None
        pass
    finally:
        if collects:
            gc.enable()
    return [frame for frame in frames if frame is not None]


def _find_callback(frames: Sequence[FrameType]) -> FrameType | None:
    """Return the outermost frame of what the loop runs; none if it waits."""
    found: FrameType | None = None
    for frame in frames:
        if frame.f_code.co_filename.endswith(_LOOPS):
            return found
        found = frame
    return None


def watch_to_file() -> None:
    """Watch this program's server loop if the environment names a file."""
    path = os.environ.get(FILE)
    if not path:
        return

    def watch(module: ModuleType) -> None:
        make_loop = module.new_event_loop

        def make_watched_loop() -> asyncio.AbstractEventLoop:
            loop: asyncio.AbstractEventLoop = make_loop()
            LoopWatch(loop, partial(_append, Path(path)))
            return loop

        vars(module)["new_event_loop"] = make_watched_loop

    run_after_import("uvloop", watch)


def _append(path: Path, seconds: float, stack: str) -> None:
    ready = path.with_suffix(READY)
    if ready.exists() and time.time() > ready.stat().st_mtime + WARM_UP_SECONDS:
        with path.open("a") as file:
            file.write(f"{seconds * 1000:.0f} ms of the loop's thread in one callback:\n{stack}\n")
