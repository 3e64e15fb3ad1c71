"""Records the statements that the program sends to a database, wherever they are built.

`make test` sets `CIRCADIA_STATEMENTS` to a folder and puts this one on `PYTHONPATH`, so that all programs that tests
start record as well: Python runs `sitecustomize.py` in each.
"""

import asyncio
import os
import pickle
import re
import sys
import uuid
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from tests.recording.module_hook import run_after_import

FOLDER = "CIRCADIA_STATEMENTS"
_MODULE = "circadia.stores.sql.statement"
_LIST = re.compile(r"(\?|\$\d+(::\w+)?)(, (\?|\$\d+(::\w+)?))+")
_NUMBER = re.compile(r"\$\d+")
_OTHERS = tuple(f"{Path(__file__).parents[2] / name}/" for name in ("tests", "benchmarks"))
"""Folders of code that is not the program's."""


class SentStatement(NamedTuple):
    dialect: str
    text: str
    values: Sequence[Any]
    in_loop: bool
    """Whether the thread of an event loop sent it; on SQLite, the loop does the work."""

    @property
    def shape(self) -> tuple[str, str, bool]:
        """The statement with lists of any length alike."""
        return self.dialect, _NUMBER.sub("$", _LIST.sub("…", self.text)), self.in_loop


@contextmanager
def recorded(take: Callable[[SentStatement], None]) -> Generator[None]:
    """Call `take` with each statement of this process's stores, until the block ends."""
    stop = _listen(import_module(_MODULE), take)
    try:
        yield
    finally:
        stop()


def record_to_folder() -> None:
    """Write each statement once into the folder that the environment names, from the import of the stores on."""
    folder = os.environ.get(FOLDER)
    if folder:
        run_after_import(_MODULE, lambda module: _listen_forever(module, Path(folder)))


class _Writer:
    """Appends each new shape of statement to a file of this process, so that a kill loses nothing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pid = 0
        self._path = folder
        self._seen: set[tuple[str, str, bool]] = set()
        self._texts: set[tuple[str, bool]] = set()

    def take(self, statement: SentStatement) -> None:
        text = statement.text, statement.in_loop
        if text in self._texts or not _is_of_program():
            return
        self._texts.add(text)
        if statement.shape in self._seen:
            return
        self._seen.add(statement.shape)
        if self._pid != os.getpid():  # forked
            self._pid = os.getpid()
            self._path = self._folder / f"{self._pid}-{uuid.uuid4().hex}.pickle"
        values = [bytes(value) if type(value) is memoryview else value for value in statement.values]
        with suppress(PermissionError), self._path.open("ab") as file:  # of a program that has become another user
            file.write(pickle.dumps((statement.dialect, statement.text, values, statement.in_loop)))


def _is_of_program() -> bool:
    """Return whether the program makes the store send a statement, and not a test: by the store's innermost caller.

    What a thread of the store sends has no caller to tell by; it counts as the program's.
    """
    frame, is_sent_by_store = sys._getframe(1), False  # pyright: ignore[reportPrivateUsage] # documented
    while frame is not None:
        name = frame.f_code.co_filename
        if name != __file__ and name.startswith(_OTHERS):
            return False
        if "/circadia/stores/" in name:
            is_sent_by_store = True
        elif "/circadia/" in name and name != __file__:
            return is_sent_by_store
        frame = frame.f_back
    return is_sent_by_store


def _listen_forever(module: Any, folder: Path) -> None:
    _listen(module, _Writer(folder).take)


def load(folder: Path) -> list[SentStatement]:
    """Return the statements that all processes recorded, one of each shape."""
    found: dict[tuple[str, str, bool], SentStatement] = {}
    for path in sorted(folder.glob("*.pickle")):
        with path.open("rb") as file:
            while True:
                try:
                    statement = SentStatement(*pickle.load(file))
                except (EOFError, pickle.UnpicklingError):  # the end, or a process killed as it wrote
                    break
                found.setdefault(statement.shape, statement)
    return list(found.values())


def _listen(module: Any, take: Callable[[SentStatement], None]) -> Callable[[], None]:
    """Tell what the module's functions and SQLAlchemy itself send; return what ends it."""
    sqlalchemy = import_module("sqlalchemy")
    execute, run_batch = module._execute, module.Statement.run_batch

    def tell(connection: Any, text: str, values: Any) -> None:
        take(SentStatement(connection.dialect.name, text, values, asyncio._get_running_loop() is not None))

    def taken_execute(connection: Any, text: str, values: Any, *, many: bool = False) -> Any:
        tell(connection, text, values[0] if many else values)
        return execute(connection, text, values, many=many)

    def taken_batch(connection: Any, writes: Any) -> Any:
        if connection.info.get(module.BATCH_EXECUTOR) is not None:  # they are joined into one statement
            for statement, rows in writes.items():
                bound = statement._bind_rows(connection, rows[:1])
                tell(connection, bound.text, bound.rows[0])
        return run_batch(connection, writes)

    def taken_event(connection: Any, _cursor: Any, text: str, values: Any, _context: Any, many: bool) -> None:
        tell(connection, text, values[0] if many else values)

    def stop() -> None:
        module._execute, module.Statement.run_batch = execute, staticmethod(run_batch)
        sqlalchemy.event.remove(sqlalchemy.Engine, "before_cursor_execute", taken_event)

    module._execute, module.Statement.run_batch = taken_execute, staticmethod(taken_batch)
    sqlalchemy.event.listen(sqlalchemy.Engine, "before_cursor_execute", taken_event)
    return stop
