"""Loading many libraries at once, and none that nobody uses."""

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
    {"aiohttp", "yarl", "circadia.agents.directory", "circadia.settings", "circadia.wake.admission.replay"}
)
"""Modules that take long to load, and that many commands, or their help, do without."""
_COMMANDS: Final = "circadia.cli."
"""Modules that begin so belong to a command."""


@contextmanager
def quick_imports() -> Generator[None]:
    """Import in the block in three quarters of the time: what is loaded stays, so the collector need not look at it.

    It would do so again and again while the number of objects grows; afterwards they are set aside for good.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def load_when_used() -> None:
    """Have late modules, of those that are imported from now on, loaded when something of them is first used.

    It is for a process that runs one command: threads that use such a module first at the same time are not thought of.
    """
    sys.meta_path.insert(0, _LateImportFinder())


class _LateImportFinder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _LATE and not fullname.startswith(_COMMANDS):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


@contextmanager
def end_on_interrupt() -> Generator[None]:
    """Let Ctrl-C in the block end the process at once: no traceback of what is only being loaded."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler or not _in_main_thread():
        yield  # who started it has it ignore them
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
