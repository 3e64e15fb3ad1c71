"""Faster imports: many libraries at once, and slow ones only when they are used."""

import gc
import os
import signal
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType
from typing import Final

INTERRUPTED: Final = 130
"""Exit status after Ctrl-C: 128 and the number of SIGINT."""
_LATE: Final = frozenset(
    {
        "aiohttp",
        "yarl",
        "circadia.agents.directory",
        "circadia.evaluation.judging",
        "circadia.evaluation.locomo",
        "circadia.evaluation.memory.run",
        "circadia.evaluation.models",
        "circadia.evaluation.prompt_cases.run",
        "circadia.evaluation.report",
        "circadia.evaluation.stateful",
        "circadia.memory.transfer.formats",
        "circadia.memory.transfer.lines",
        "circadia.memory.transfer.transcripts",
        "circadia.server.cluster_wiring",
        "circadia.server.database_files",
        "circadia.settings",
        "circadia.wake.admission.replay",
    }
)
"""Modules that take long to load, and that many commands, or their help, do without."""


@contextmanager
def quick_imports() -> Generator[None]:
    """Suspend the garbage collector in the block, so that imports take a quarter less time.

    Loaded modules stay for good, so scanning them again and again finds nothing; afterwards they are frozen.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def load_when_used() -> None:
    """From now on, load the modules in `_LATE` on first use.

    Only for a process that runs one command: it is not safe if threads first use such a module at the same time.
    """
    sys.meta_path.insert(0, _LateImportFinder())


class _LateImportFinder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _LATE:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


@contextmanager
def end_on_interrupt() -> Generator[None]:
    """Let Ctrl-C in the block end the process at once, without a traceback from an import."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler or not _in_main_thread():
        yield  # the parent process had it ignored
        return
    signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _end(*_: object) -> None:
    os._exit(INTERRUPTED)
