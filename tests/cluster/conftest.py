"""A watcher of the locks of servers that run in the test's own process."""

import logging
import traceback
from collections.abc import Generator

import pytest

_WRITER = "circadia.stores.sql.pooled_writer"
_LATE = {"_fetch_successor", "_hold_participants", "_get_or_create_bank"}
"""They may take a key out of order: while the block waited, another agent or bank got that name or lost it, or agents
joined."""


class LateLockRecorder(logging.Handler):
    """Records each key that a write block took out of order, with the stack of the block."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.findings: dict[str, str] = {}
        """The keys by stack."""

    def emit(self, record: logging.LogRecord) -> None:
        if not record.getMessage().startswith("locks out of order"):
            return
        frames = [frame for frame in traceback.extract_stack() if "/src/circadia/" in frame.filename]
        if any(frame.name in _LATE for frame in frames):
            return
        lines = (f"  {frame.filename.rpartition('/src/')[2]}:{frame.lineno} {frame.line}" for frame in frames)
        self.findings.setdefault("\n".join(lines), record.getMessage())


@pytest.fixture
def late_locks() -> Generator[dict[str, str]]:
    """Keys that write blocks of this process took out of order, by stack; it must stay empty."""
    logger, recorder = logging.getLogger(_WRITER), LateLockRecorder()
    level = logger.level
    logger.setLevel(logging.DEBUG)
    logger.addHandler(recorder)
    yield recorder.findings
    logger.removeHandler(recorder)
    logger.setLevel(level)
