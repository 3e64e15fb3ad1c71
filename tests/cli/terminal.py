"""A terminal for tests: commands run as `circadia` runs them, in this process or in one of their own."""

import asyncio
import io
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any

from circadia.cli.app import main
from tests.fixtures import program as forked

PROGRAM = (sys.executable, "-m", "circadia")
PATIENCE_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a command left."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Return what it printed, which must be JSON and nothing else."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """Return what it printed, which must be one JSON document a line."""
        return [json.loads(line) for line in self.out.splitlines()]


def refused(result: Result, status: int, *words: str) -> None:
    """Assert that the command ended with this status and one line that holds the words, and no traceback."""
    assert result.status == status, (result.status, result.err)
    assert result.out == ""
    assert result.err.startswith("error: ")
    assert result.err.count("\n") == 1, result.err
    for word in words:
        assert word in result.err


class Screen(io.TextIOWrapper):
    """Standard output that a person looks at; the environment's COLUMNS say how wide it is."""

    def isatty(self) -> bool:
        return True


async def run(*words: str, watched: bool = False) -> Result:
    """Run a command in this process, in a thread with a loop of its own; `watched` by a person at a terminal."""

    def command() -> Result:
        written, err = io.BytesIO(), io.StringIO()
        out = (Screen if watched else io.TextIOWrapper)(written, "utf-8")
        status = 0
        with redirect_stdout(out), redirect_stderr(err):
            try:
                main(words)
            except SystemExit as end:
                status = end.code if isinstance(end.code, int) else 1 if end.code else 0
        out.flush()
        return Result(status=status, out=written.getvalue().decode(), err=err.getvalue())

    return await asyncio.to_thread(command)


class Program:
    """A command in a process of its own."""

    def __init__(self, process: forked.Program) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    async def until(self, word: str, *, errors: bool = False) -> str:
        """Return the lines of standard output, or error, up to the first that holds the word."""
        said: list[str] = []
        async with asyncio.timeout(PATIENCE_SECONDS):
            async for raw in self._process.stderr if errors else self._process.stdout:
                said.append(raw.decode())
                if word in said[-1]:
                    return "".join(said)
        raise AssertionError(f"ended without {word!r}: {''.join(said)}")

    async def ended(self, seconds: float = PATIENCE_SECONDS) -> Result:
        """Wait for its end, at most for so long, and return what it left."""
        async with asyncio.timeout(seconds):
            out, err = await asyncio.gather(self._process.stdout.read(), self._process.stderr.read())
            status = await self._process.wait()
        return Result(status=status, out=out.decode(), err=err.decode())


@asynccontextmanager
async def started(
    *words: str, env: Mapping[str, str] | None = None, program: Sequence[str] = ("circadia",)
) -> AsyncGenerator[Program]:
    """Start `circadia` with these words; it is killed if it still runs at the end."""
    environment = {**os.environ, "NO_COLOR": "1", **(env or {})}
    process = await forked.Program.start(program, *words, env=environment, errors_apart=True)
    try:
        yield Program(process)
    finally:
        process.send_signal(signal.SIGKILL)
        await process.wait()
