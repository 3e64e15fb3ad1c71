"""Loading many libraries at once."""

import gc
import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

INTERRUPTED: Final = 130
"""Exit status after Ctrl-C: 128 and the number of SIGINT."""


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


@contextmanager
def ended_by_interrupts() -> Generator[None]:
    """Let Ctrl-C in the block end the process at once: no traceback of what is only being loaded."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # else who started it has it ignore them
        signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _end(*_: object) -> None:
    os._exit(INTERRUPTED)
